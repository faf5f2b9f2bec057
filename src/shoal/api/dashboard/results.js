// What a job has brought: items, their fields, pages with their bodies, dead letters.

import { again, ask, may, query, send } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { brief, bytes, moment, number, percent } from "/ui/format.js";
import { action, choice, modal, notice, outside, table } from "/ui/parts.js";

const ROWS = 50, MOST_COLUMNS = 12, MOST_BODY = 500_000;

/** Rows of a list, page by page, newest look every few seconds while nobody has gone on. */
async function listing(body, signal, path, draw) {
  const kept = { rows: [], cursor: null, more: false, loaded: false, trouble: null };
  const paint = () => fill(body, kept.trouble ? notice(kept.trouble.message, "bad") : null, ...draw(kept, { look, further }));
  const look = async () => {
    if (kept.gone) return;
    const found = await ask(path({ limit: ROWS }), { signal });
    Object.assign(kept, { rows: found.data, cursor: found.cursor, more: found.more, loaded: true });
    paint();
  };
  const further = async () => {
    const found = await ask(path({ limit: ROWS, cursor: kept.cursor }), { signal });
    Object.assign(kept, { rows: [...kept.rows, ...found.data], cursor: found.cursor, more: found.more, gone: true });
    paint();
  };
  kept.paint = paint;
  await again(5, signal, look, (error) => { kept.trouble = error; if (error) paint(); });
}

const more = (kept, further) => (kept.more ? action("More", further) : null);
const loading = (kept, shown) => (kept.loaded ? shown : h("p", { class: "empty" }, "Loading…"));

export async function items(body, { id, query: asked, signal }) {
  let versions = [], paint = () => {};
  ask(`jobs/${id}/extractions`, { signal }).then((found) => {
    versions = found.data.filter((one) => one.state === "done");
    paint();
  }, () => {});
  const version = asked.get("version") || "";
  const files = ["jsonl", "csv", "parquet", "sqlite"];
  await listing(body, signal, (more) => `jobs/${id}/items${query({ version, ...more })}`, (kept, { further }) => ((paint = kept.paint), [
    h("div", { class: "head" },
      versions.length ? choice("version", "Version", [["", "newest"], ["v1", "v1"], ...versions.map((one) => [one.version, one.version])],
        version, (event) => { location.hash = `#/jobs/${id}/items${query({ version: event.target.value })}`; }) : null,
      h("div", { class: "push" }, files.map((kind) =>
        h("a", { class: "button", href: `/api/v1/jobs/${id}/export${query({ format: kind, version })}`, download: "" }, kind)))),
    h("section", { class: "card" }, loading(kept, itemTable(kept.rows)), more(kept, further)),
  ]));
}

/** Items as a table: a column for each of their fields. */
export function itemTable(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.data)))];
  return table([
    ...names.slice(0, MOST_COLUMNS).map((name) => ({ name, kind: "value", of: (row) => brief(row.data[name]) })),
    ...(names.length > MOST_COLUMNS ? [{ name: `${names.length - MOST_COLUMNS} more`, of: () => "…" }] : []),
    ...(rows[0]?.url ? [{ name: "Page", kind: "url", of: (row) => outside(row.url) }] : []),
  ], rows, { empty: "No items yet.", caption: `${number(rows.length)} items shown` });
}

/** Of texts the lengths are kept, of others the values. */
const bound = (one, value) => brief(value, 60) + (one.type === "text" && typeof value === "number" ? " characters" : "");

export async function fields(body, { id, signal }) {
  await again(10, signal, async () => {
    const found = await ask(`jobs/${id}/fields`, { signal });
    fill(body, h("section", { class: "card" },
      table([
        { name: "Field", of: ([name]) => h("code", {}, name) },
        { name: "Filled", of: ([, one]) => h("meter", { min: 0, max: 1, low: 0.5, value: one.fill_rate, "aria-label": percent(one.fill_rate) }) },
        { name: "", kind: "n", of: ([, one]) => percent(one.fill_rate) },
        { name: "Type", of: ([, one]) => brief(one.type) },
        { name: "Different", kind: "n", of: ([, one]) => `${one.distinct_is_exact ? "" : "≈ "}${number(one.distinct)}` },
        { name: "From", kind: "value", of: ([, one]) => bound(one, one.low) },
        { name: "To", kind: "value", of: ([, one]) => bound(one, one.high) },
      ], Object.entries(found.fields), {
        key: ([name]) => name, empty: "No items yet.",
        caption: `${number(found.items)} items${found.complete ? "" : " counted so far"}, ${number(found.quarantined)} in quarantine`,
      })));
  }, (error) => { if (error) fill(body, notice(error.message, "bad")); });
}

export async function pages(body, { id, query: asked, signal }) {
  const status = asked.get("status") || "";
  await listing(body, signal, (more) => `jobs/${id}/pages${query({ status, ...more })}`, (kept, { further }) => [
    h("div", { class: "head" }, h("div", {}, h("label", { for: "status" }, "HTTP status"),
      h("input", {
        id: "status", value: status, size: 5, inputmode: "numeric",
        onchange: (event) => { location.hash = `#/jobs/${id}/pages${query({ status: event.target.value })}`; },
      }))),
    h("section", { class: "card" }, loading(kept, table([
      { name: "URL", kind: "url", of: (row) => outside(row.url) },
      { name: "Status", kind: "n", of: (row) => h("span", { class: row.status >= 400 ? "bad" : "" }, String(row.status)) },
      { name: "Depth", kind: "n", of: (row) => number(row.depth) },
      { name: "Size", kind: "n", of: (row) => bytes(row.size) },
      { name: "Took", kind: "n", of: (row) => `${number(Math.round(row.elapsed_ms))} ms` },
      { name: "Fetched", of: (row) => moment(row.fetched_at) },
      { name: "By", of: (row) => row.redirect ? "redirect" : row.engine },
      {
        name: "Body", of: (row) => h("div", { class: "row" },
          row.body ? action("Look", () => look(row, signal)) : null,
          h("a", { href: `#/jobs/${id}/explain${query({ url: row.url })}` }, "Explain")),
      },
    ], kept.rows, { key: (row) => row.id, empty: "No pages yet.", caption: `${number(kept.rows.length)} pages shown` })),
    more(kept, further)),
  ]);
}

/** The stored body, as text and nothing else. */
async function look(row, signal) {
  const answer = await send(row.body, { signal });
  const raw = await answer.arrayBuffer();
  const decoder = (() => { try { return new TextDecoder(row.charset || "utf-8"); } catch { return new TextDecoder(); } })();
  const isText = /^$|^text\/|json|xml|javascript/i.test(row.content_type);
  const text = isText ? decoder.decode(raw.slice(0, MOST_BODY)) : "These are bytes, and no text.";
  const dialog = h("dialog", { "aria-label": "Stored body" },
    h("div", { class: "head" }, h("h2", { class: "mono" }, row.url),
      h("form", { method: "dialog", class: "push" }, h("button", {}, "Close"))),
    h("p", { class: "soft" }, `${row.content_type || "no type"} · ${bytes(raw.byteLength)}${raw.byteLength > MOST_BODY ? `, the first ${bytes(MOST_BODY)}` : ""}`),
    h("pre", { tabindex: 0 }, text),
    h("a", { class: "button", href: row.body, download: "" }, "Download"));
  modal(dialog, signal);
}

export async function dead(body, { id, query: asked, signal, changed }) {
  const reason = asked.get("reason") || "";
  await listing(body, signal, (more) => `jobs/${id}/dead${query({ reason, ...more })}`, (kept, { look, further }) => {
    const replay = (choice) => async () => {
      const { replayed } = await ask(`jobs/${id}/dead/replay`, { body: choice });
      say(`${number(replayed)} tried once more.`);
      changed(await ask(`jobs/${id}`));
      await look();
    };
    return [
      h("div", { class: "head" }, h("div", {}, h("label", { for: "reason" }, "Reason"),
        h("input", {
          id: "reason", value: reason, size: 16,
          onchange: (event) => { location.hash = `#/jobs/${id}/dead${query({ reason: event.target.value })}`; },
        })),
      h("div", { class: "push" }, may("submit") && kept.rows.length
        ? action(reason ? `Replay all with ${reason}` : "Replay all", replay(reason ? { reason } : {}), { key: "all" }) : null)),
      h("section", { class: "card" }, loading(kept, table([
        { name: "URL", kind: "url", of: (row) => outside(row.url) },
        { name: "Reason", of: (row) => h("code", {}, row.reason) },
        { name: "What happened", kind: "value", of: (row) => brief(row.detail) },
        { name: "Tries", kind: "n", of: (row) => number(row.attempts) },
        { name: "When", of: (row) => moment(row.at) },
        {
          name: "Actions", of: (row) => h("div", { class: "row" },
            may("submit") ? action("Replay", replay({ ids: [row.id] })) : null,
            h("a", { href: `#/jobs/${id}/explain${query({ url: row.url })}` }, "Explain")),
        },
      ], kept.rows, { key: (row) => row.id, empty: "No dead letters.", caption: `${number(kept.rows.length)} dead letters shown` })),
      more(kept, further)),
    ];
  });
}
