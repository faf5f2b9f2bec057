// What a job has brought: items, their fields, pages with their bodies, dead letters.

import { go, may, post, query, send } from "/ui/api.js";
import { h, say } from "/ui/dom.js";
import { brief, bytes, ms, number, percent } from "/ui/format.js";
import { action, beside, card, choice, field, head, link, live, modal, table } from "/ui/parts.js";

const ROWS = 50, MOST_COLUMNS = 12, MOST_BODY = 500_000;
const FILES = ["jsonl", "csv", "parquet", "sqlite"];

/** Rows of a list, page by page, newest look every few seconds while nobody has gone on. */
function listing(body, { signal, get }, path, wanted, above, drawn) {
  let gone = false;
  const further = async (view) => {
    const found = await get(path, { ...wanted, limit: ROWS, cursor: view.found.cursor });
    gone = true;
    view.take({ ...found, data: [...view.found.data, ...found.data] });
  };
  return live(body, {
    signal, every: 5, head: above,
    load: (view) => (gone ? view.found : get(path, { ...wanted, limit: ROWS })),
    body: (view) => card(drawn(view.found.data, view), view.found.more && action("More", () => further(view))),
  });
}

export async function items(body, context) {
  const { id, asked, get } = context, path = `jobs/${id}/items`, version = asked("version");
  const made = await get(`jobs/${id}/extractions`).catch(() => ({ data: [] }));
  const versions = made.data.filter((one) => one.state === "done").map((one) => one.version);
  const above = () => head(
    versions.length > 0 && choice("version", "Version", [["", "newest"], "v1", ...versions], version, (chosen) => go(path, { version: chosen })),
    h("div.push", FILES.map((format) =>
      h("a.button", { href: `/api/v1/jobs/${id}/export${query({ format, version })}`, download: "" }, format))));
  return listing(body, context, path, { version }, above, itemTable);
}

/** Items as a table: a column for each of their fields. */
export function itemTable(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.data)))], left = names.length - MOST_COLUMNS;
  return table([
    ...names.slice(0, MOST_COLUMNS).map((name) => [name, (row) => brief(row.data[name]), "value"]),
    ...(left > 0 ? [[`${left} more`, () => "…"]] : []),
    ...(rows[0]?.url ? [["Page", "url", "url"]] : []),
  ], rows, { empty: "No items yet.", shown: "items" });
}

/** Of texts the lengths are kept, of others the values. */
const bound = (one, value) => brief(value, 60) + (one.type === "text" && typeof value === "number" ? " characters" : "");

const FIELDS = [
  ["Field", "name", "code"],
  ["Filled", (one) => h("meter", { min: 0, max: 1, low: 0.5, value: one.fill_rate, "aria-label": percent(one.fill_rate) })],
  ["", (one) => percent(one.fill_rate), "n"],
  ["Type", (one) => brief(one.type)],
  ["Different", (one) => `${one.distinct_is_exact ? "" : "≈ "}${number(one.distinct)}`, "n"],
  ["From", (one) => bound(one, one.low), "value"],
  ["To", (one) => bound(one, one.high), "value"],
];

export const fields = (body, { id, signal, get }) => live(body, {
  signal, every: 10,
  load: () => get(`jobs/${id}/fields`),
  body: ({ found }) => card(table(FIELDS, Object.entries(found.fields).map(([name, one]) => ({ name, ...one })), {
    key: "name", empty: "No items yet.",
    caption: `${number(found.items)} items${found.complete ? "" : " counted so far"}, ${number(found.quarantined)} in quarantine`,
  })),
});

const explained = (id, { url }) => link("Explain", `jobs/${id}/explain`, { url });

export function pages(body, context) {
  const { id, asked, signal } = context, path = `jobs/${id}/pages`, status = asked("status");
  const columns = [
    ["URL", "url", "url"],
    ["Status", (row) => h("span", { class: row.status >= 400 ? "bad" : "" }, String(row.status)), "n"],
    ["Depth", "depth", "n"],
    ["Size", (row) => bytes(row.size), "n"],
    ["Took", (row) => ms(Math.round(row.elapsed_ms)), "n"],
    ["Fetched", "fetched_at", "at"],
    ["By", (row) => row.redirect ? "redirect" : row.engine],
    ["Body", (row) => beside(row.body && action("Look", () => look(row, signal)), explained(id, row))],
  ];
  return listing(body, context, path, { status },
    () => head(field("status", "HTTP status", { value: status, size: 5, inputmode: "numeric", told: (text) => go(path, { status: text }) })),
    (rows) => table(columns, rows, { empty: "No pages yet.", shown: "pages" }));
}

/** The stored body, as text and nothing else. */
async function look(row, signal) {
  const answer = await send(row.body, { signal });
  const raw = await answer.arrayBuffer();
  const decoder = (() => { try { return new TextDecoder(row.charset || "utf-8"); } catch { return new TextDecoder(); } })();
  const isText = /^$|^text\/|json|xml|javascript/i.test(row.content_type);
  const text = isText ? decoder.decode(raw.slice(0, MOST_BODY)) : "These are bytes, and no text.";
  modal(h("dialog", { "aria-label": "Stored body" },
    h("div.head", h("h2.mono", row.url), h("form.push", { method: "dialog" }, h("button", "Close"))),
    h("p.soft", `${row.content_type || "no type"} · ${bytes(raw.byteLength)}${raw.byteLength > MOST_BODY ? `, the first ${bytes(MOST_BODY)}` : ""}`),
    h("pre", { tabindex: 0 }, text),
    h("a.button", { href: row.body, download: "" }, "Download")), signal);
}

export function dead(body, context) {
  const { id, asked, get, changed } = context, path = `jobs/${id}/dead`, reason = asked("reason");
  const replay = (view, text, chosen) => may("submit") && action(text, () => post(`${path}/replay`, chosen), {
    then: async ({ replayed }) => {
      say(`${number(replayed)} tried once more.`);
      changed(await get(`jobs/${id}`));
      await view.look();
    },
  });
  const columns = (view) => [
    ["URL", "url", "url"],
    ["Reason", "reason", "code"],
    ["What happened", (row) => brief(row.detail), "value"],
    ["Tries", "attempts", "n"],
    ["When", "at", "at"],
    ["Actions", (row) => beside(replay(view, "Replay", { ids: [row.id] }), explained(id, row))],
  ];
  return listing(body, context, path, { reason },
    (view) => head(field("reason", "Reason", { value: reason, size: 16, told: (text) => go(path, { reason: text }) }),
      h("div.push", view.found?.data.length > 0 && replay(view, reason ? `Replay all with ${reason}` : "Replay all", reason ? { reason } : {}))),
    (rows, view) => table(columns(view), rows, { empty: "No dead letters.", shown: "dead letters" }));
}
