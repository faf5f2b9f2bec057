// What several views show: tiles, tables, states, charts of the past, and buttons that do something.

import { Refusal, ask, query } from "/ui/api.js";
import { chart } from "/ui/chart.js";
import { h, say } from "/ui/dom.js";

const MOODS = {
  running: "good", finished: "soft", paused: "wait", cancelled: "warn", failed: "bad", done: "good", open: "good",
  stored: "good", failed: "bad", robots: "warn", filtered: "warn", at_cap: "soft", slowed: "warn", held: "warn", tripped: "bad", down: "bad",
};
export const SPANS = [["15m", "15 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["1d", "1 day"], ["7d", "7 days"]];

export const badge = (state) => h("span", { class: `state ${MOODS[state] || "soft"}` }, String(state).replace("_", " "));
export const tiles = (...all) => h("dl", { class: "tiles" }, all);

export function tile(name, value, note = null, mood = "") {
  return h("div", { class: "tile", "data-key": name },
    h("dt", {}, name), h("dd", { class: mood }, value, note ? h("small", {}, note) : null));
}

/** columns: [{ name, of: (row) => value, kind: "n" | "url" | "value" | "", sort: (row) => value }] */
export function table(columns, rows, { caption = null, empty = "Nothing here.", key = null, sort = null, onSort } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "Table" },
    h("table", { class: "stack" },
      caption ? h("caption", {}, caption) : null,
      h("thead", {}, h("tr", {}, columns.map((column) => heading(column, sort, onSort)))),
      h("tbody", {}, rows.map((row) =>
        h("tr", { "data-key": key ? key(row) : null }, columns.map((column) =>
          h("td", { class: column.kind || null, "data-name": column.name }, column.of(row))))))));
}

function heading(column, sort, onSort) {
  const order = sort && sort.name === column.name ? (sort.down ? "descending" : "ascending") : null;
  const mark = order ? (sort.down ? " ↓" : " ↑") : "";
  const text = column.sort && onSort ? h("button", { type: "button", onclick: () => onSort(column) }, column.name + mark)
    : column.name;
  return h("th", { scope: "col", class: column.kind === "n" ? "n" : null, "aria-sort": order }, text);
}

/** The link of a scraped page: shown as text, and opened only as what it is. */
export function outside(url) {
  return /^https?:\/\//i.test(url)
    ? h("a", { href: url, rel: "noreferrer noopener nofollow", target: "_blank" }, url) : h("span", {}, url);
}

/** A button for something that takes a moment and may be refused; it keeps the focus, and is not pressed twice. */
export function action(text, work, { kind = "", sure = "", key = null } = {}) {
  return h("button", {
    type: "button", class: kind, "data-key": key,
    onclick: (event) => {
      if (sure && !window.confirm(sure)) return;
      once(event.currentTarget, async () => {
        try { await work(); } catch (error) { if (error.name !== "AbortError") say(error.message); }
      });
    },
  }, text);
}

/** Do something for this element unless it is being done. */
export async function once(element, work) {
  if (element.busy) return;
  element.busy = true;
  element.setAttribute("aria-busy", "true");
  try { await work(); } finally {
    element.busy = false;
    element.removeAttribute("aria-busy");
  }
}

/** Values of a form by name; what is empty is left out. */
export function values(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, text]) => [name, String(text).trim()])
    .filter(([, text]) => text !== ""));
}

/** `4` is a number for the API, `30/m` a text. */
export function plain(text) { return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text; }

export function field(name, label, attributes = {}) {
  const id = `f-${name}`;
  return h("div", { class: attributes.wide ? "wide" : null },
    h("label", { for: id }, label), h("input", { id, name, autocomplete: "off", ...attributes, wide: null }));
}

export function choice(name, label, options, chosen, onchange = null) {
  const id = `f-${name}`;
  return h("div", {}, h("label", { for: id }, label),
    h("select", { id, name, onchange }, options.map(([value, text]) =>
      h("option", { value, selected: value === chosen }, text))));
}

/** What the API found wrong, each with its place. */
export function flaws(error) {
  if (!error) return null;
  const each = error instanceof Refusal ? error.flaws : [];
  return h("div", { role: "alert" }, each.length
    ? each.map((flaw) => h("p", { class: "flaw" }, flaw.field ? h("strong", {}, `${flaw.field}: `) : null, flaw.detail))
    : h("p", { class: "flaw" }, error.message));
}

export function notice(text, mood = "") { return h("p", { class: `notice ${mood}`, role: "status" }, text); }

/** Ask for the past of a job or of the fleet: null when there is none to be had. */
export async function past(path, since, signal) {
  try {
    return await ask(`${path}${query({ since, points: 120 })}`, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export function charts(history, wanted) {
  if (!history) return [];
  const times = history.points.map((point) => Date.parse(point.at));
  return wanted.map(({ title, lines, empty }) =>
    h("div", { class: "card", "data-key": title }, chart({
      title, empty, times,
      series: lines(history).map(({ name, of }) => ({ name, values: history.points.map((point) => of(point) ?? null) })),
    })));
}

/** The reasons with the most events, as lines of a chart. */
export function byReason(history) {
  const sums = new Map();
  for (const point of history.points) {
    for (const [reason, rate] of Object.entries(point.reasons || {})) {
      if (!reason.startsWith("done")) sums.set(reason, (sums.get(reason) || 0) + (rate || 0));
    }
  }
  return [...sums].sort((one, other) => other[1] - one[1]).slice(0, 6)
    .map(([name]) => ({ name, of: (point) => point.pages_per_s === null ? null : point.reasons?.[name] ?? 0 }));
}
