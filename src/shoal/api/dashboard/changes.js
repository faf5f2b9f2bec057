// What has changed since an earlier run: sums, a list by kind, and the difference of a page, line by line.

import { ask, query } from "/ui/api.js";
import { fill, h } from "/ui/dom.js";
import { brief, number } from "/ui/format.js";
import { action, choice, notice, outside, table, tile, tiles } from "/ui/parts.js";

const KINDS = [["", "all but unchanged"], ...["new", "changed", "gone", "unchanged", "unknown"].map((kind) => [kind, kind])];
const SUMS = [["New", "new"], ["Changed", "changed"], ["Gone", "gone"], ["Unchanged", "unchanged"], ["Unknown", "unknown"]];
const ROWS = 50, MOST_PARTS = 200;
const MOODS = { new: "good", changed: "warn", gone: "bad", unknown: "wait" };
const mark = (kind) => h("span", { class: `state ${MOODS[kind] || "soft"}` }, kind);

export async function changes(body, { id, query: asked, signal }) {
  const chosen = { of: asked.get("of") || "pages", kind: asked.get("kind") || "", since: asked.get("since") || "" };
  const kept = { rows: [], cursor: null, more: false, sums: null, counting: false, since: chosen.since, trouble: null, shown: null };
  const go = (change) => { location.hash = `#/jobs/${id}/changes${query({ ...chosen, ...change })}`; };
  const draw = () => fill(body, ...view(kept, chosen, go, { further, look }));
  const further = async () => {
    const wanted = { of: chosen.of, kind: chosen.kind, since: kept.since, limit: ROWS, cursor: kept.cursor };
    const found = await ask(`jobs/${id}/changes${query(wanted)}`, { signal });
    Object.assign(kept, { rows: [...kept.rows, ...found.data], cursor: found.cursor, more: found.more, since: found.since });
    draw();
    if (!found.data.length && found.more) await further();
  };
  const look = async (row) => {
    kept.shown = await ask(`jobs/${id}/changes/page${query({ url: row.url, since: kept.since })}`, { signal });
    draw();
    document.getElementById("difference")?.focus();
  };
  draw();
  try {
    await further();
    await count(id, kept, chosen, signal, draw);
  } catch (error) {
    if (signal.aborted) return;
    kept.trouble = error;
    draw();
  }
}

/** A large job is counted in several answers, which are added up. */
async function count(id, kept, chosen, signal, draw) {
  kept.sums = Object.fromEntries(SUMS.map(([, kind]) => [kind, 0]));
  kept.counting = true;
  for (let part = 0, cursor = null; part < MOST_PARTS; part += 1) {
    const found = await ask(`jobs/${id}/changes/summary${query({ of: chosen.of, since: kept.since, cursor })}`, { signal });
    for (const [, kind] of SUMS) kept.sums[kind] += found[kind];
    kept.counting = found.more;
    draw();
    if (!found.more) return;
    cursor = found.cursor;
  }
}

function view(kept, chosen, go, { further, look }) {
  return [
    h("div", { class: "head" },
      choice("of", "Of", [["pages", "pages"], ["items", "items"]], chosen.of, (event) => go({ of: event.target.value })),
      choice("kind", "Kind", KINDS, chosen.kind, (event) => go({ kind: event.target.value })),
      h("div", {}, h("label", { for: "since" }, "Since run"), h("input", {
        id: "since", value: chosen.since, size: 14, placeholder: kept.since || "the run before",
        onchange: (event) => go({ since: event.target.value.trim() }),
      }))),
    kept.trouble ? notice(kept.trouble.message, "bad") : null,
    kept.sums ? tiles(SUMS.map(([name, kind]) => tile(name, number(kept.sums[kind]), kept.counting ? "counted so far" : null))) : null,
    kept.shown ? difference(kept.shown) : null,
    h("section", { class: "card" },
      table(chosen.of === "items" ? itemColumns() : pageColumns(look), kept.rows, {
        empty: kept.trouble || !kept.sums ? "…" : "Nothing of this kind.", caption: `${number(kept.rows.length)} changes shown`,
      }),
      kept.more ? action("More", further) : null),
  ];
}

const pageColumns = (look) => [
  { name: "Kind", of: (row) => mark(row.kind) },
  { name: "URL", kind: "url", of: (row) => outside(row.url) },
  { name: "Why", of: (row) => [row.why ? h("code", {}, row.why) : null, row.detail ? ` ${brief(row.detail)}` : null] },
  { name: "Difference", of: (row) => row.kind === "changed" && row.why === "content" ? action("Look", () => look(row)) : null },
];

const itemColumns = () => [
  { name: "Kind", of: (row) => mark(row.kind) },
  { name: "Key", kind: "value", of: (row) => row.key === undefined ? `#${row.number}` : brief(row.key) },
  {
    name: "Fields", kind: "value", of: (row) => Object.entries(row.fields || {}).map(([name, one]) =>
      h("div", {}, h("code", {}, name), ` ${brief(one.before)} → ${brief(one.after)}`)),
  },
  { name: "Why", of: (row) => row.why ? h("code", {}, row.why) : null },
  { name: "Page", kind: "url", of: (row) => outside(row.url) },
];

/** Signs before the lines, and words for who does not see: not by colour alone. */
function difference(shown) {
  const diff = shown.diff;
  return h("section", { class: "card", id: "difference", tabindex: -1 },
    h("h2", { class: "mono" }, shown.url),
    diff ? h("p", { class: "soft" }, `${number(diff.added)} lines added, ${number(diff.removed)} removed`) : null,
    diff?.note ? notice(diff.note) : null,
    diff ? h("pre", { class: "diff", tabindex: 0 }, diff.lines.map(line)) : null);
}

function line(text) {
  const sign = text[0];
  if (sign === "+") return h("ins", {}, `${text}\n`);
  if (sign === "-") return h("del", {}, `${text}\n`);
  return h("span", { class: sign === "@" ? "soft" : null }, `${text}\n`);
}
