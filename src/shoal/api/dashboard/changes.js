// What has changed since an earlier run: sums, a list by kind, and the difference of a page, line by line.

import { go } from "/ui/api.js";
import { byId, fill, h } from "/ui/dom.js";
import { brief, number } from "/ui/format.js";
import { action, card, choice, code, failure, field, head, notice, table, tiles } from "/ui/parts.js";

const SUMS = ["new", "changed", "gone", "unchanged", "unknown"];
const ROWS = 50, MOST_PARTS = 200;

export async function changes(body, { id, asked, signal, get }) {
  const path = `jobs/${id}/changes`;
  const chosen = { of: asked("of") || "pages", kind: asked("kind"), since: asked("since") };
  const kept = { rows: [], since: chosen.since };
  const choose = (change) => go(path, { ...chosen, ...change });
  const draw = () => fill(body, view(kept, chosen, choose, further, look));
  const further = async () => {
    const { data, cursor, more, since } = await get(path, { ...chosen, since: kept.since, limit: ROWS, cursor: kept.cursor });
    Object.assign(kept, { rows: [...kept.rows, ...data], cursor, more, since });
    draw();
    if (!data.length && more) await further();
  };
  const look = async (row) => {
    kept.shown = await get(`${path}/page`, { url: row.url, since: kept.since });
    draw();
    byId("difference")?.focus();
  };
  draw();
  try {
    await further();
    await count(kept, (cursor) => get(`${path}/summary`, { of: chosen.of, since: kept.since, cursor }), draw);
  } catch (error) {
    if (signal.aborted) return;
    kept.trouble = error;
    draw();
  }
}

/** A large job is counted in several answers, which are added up. */
async function count(kept, ask, draw) {
  kept.sums = Object.fromEntries(SUMS.map((kind) => [kind, 0]));
  kept.counting = true;
  for (let part = 0, cursor = null; kept.counting && part < MOST_PARTS; part += 1) {
    const found = await ask(cursor);
    for (const kind of SUMS) kept.sums[kind] += found[kind];
    kept.counting = found.more;
    cursor = found.cursor;
    draw();
  }
}

const titled = (text) => text[0].toUpperCase() + text.slice(1);

const view = (kept, chosen, choose, further, look) => [
  head(
    choice("of", "Of", ["pages", "items"], chosen.of, (of) => choose({ of })),
    choice("kind", "Kind", [["", "all but unchanged"], ...SUMS], chosen.kind, (kind) => choose({ kind })),
    field("since", "Since run", {
      value: chosen.since, size: 14, placeholder: kept.since || "the run before", told: (since) => choose({ since }),
    })),
  failure(kept.trouble),
  kept.sums && tiles(...SUMS.map((kind) => [titled(kind), number(kept.sums[kind]), kept.counting && "counted so far"])),
  kept.shown && difference(kept.shown),
  card(
    table(chosen.of === "items" ? ITEMS : pageColumns(look), kept.rows, {
      empty: kept.trouble || !kept.sums ? "…" : "Nothing of this kind.", shown: "changes",
    }),
    kept.more && action("More", further)),
];

const why = (row) => row.why && code(row.why);

const pageColumns = (look) => [
  ["Kind", "kind", "badge"],
  ["URL", "url", "url"],
  ["Why", (row) => [why(row), row.detail && ` ${brief(row.detail)}`]],
  ["Difference", (row) => row.kind === "changed" && row.why === "content" && action("Look", () => look(row))],
];

const ITEMS = [
  ["Kind", "kind", "badge"],
  ["Key", (row) => row.key === undefined ? `#${row.number}` : brief(row.key), "value"],
  ["Fields", (row) => Object.entries(row.fields || {}).map(([name, one]) =>
    h("div", code(name), ` ${brief(one.before)} → ${brief(one.after)}`)), "value"],
  ["Why", why],
  ["Page", "url", "url"],
];

/** Signs before the lines, and words for who does not see: not by colour alone. */
function difference({ url, diff }) {
  return h("section.card", { id: "difference", tabindex: -1 }, h("h2.mono", url), diff && [
    h("p.soft", `${number(diff.added)} lines added, ${number(diff.removed)} removed`),
    notice(diff.note),
    h("pre.diff", { tabindex: 0 }, diff.lines.map(line)),
  ]);
}

const LINES = { "+": "ins", "-": "del", "@": "span.soft" };
const line = (text) => h(LINES[text[0]] ?? "span", `${text}\n`);
