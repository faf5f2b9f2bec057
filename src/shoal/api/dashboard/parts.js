// What several views show: tiles, tables, states, charts of the past, and buttons that do something.

import { ask, query } from "/ui/api.js";
import { chart } from "/ui/chart.js";
import { h, say, visible } from "/ui/dom.js";

const MOODS = {
  running: "good", finished: "soft", paused: "wait", cancelled: "warn", failed: "bad", done: "good", open: "good",
  active: "good", ended: "soft", waiting: "wait", starting: "wait", skipped: "soft", delivered: "good", enabled: "good", disabled: "bad",
  stored: "good", failed: "bad", robots: "warn", filtered: "warn", at_cap: "soft", slowed: "warn", held: "warn", tripped: "bad", down: "bad",
};
export const SPANS = [["15m", "15 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["1d", "1 day"], ["7d", "7 days"]];

export const badge = (state) => h("span", { class: `state ${MOODS[state] || "soft"}` }, String(state).replace("_", " "));
export const tiles = (...all) => h("dl", { class: "tiles" }, all);

export function tile(name, value, note = null, mood = "") {
  return h("div", { class: "tile", "data-key": name },
    h("dt", {}, name), h("dd", { class: mood }, value, note ? h("small", {}, note) : null));
}

/** columns: [{ name, of: (row) => value, kind: "n" | "url" | "value" | "", sort: what the API sorts by }] */
export function table(columns, rows, { caption = null, empty = "Nothing here.", key = null, sort = null, onSort, small = false } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "Table" },
    h("table", { class: small ? null : "stack" },
      caption ? h("caption", {}, caption) : null,
      h("thead", {}, h("tr", {}, columns.map((column) => heading(column, sort, onSort)))),
      h("tbody", {}, rows.map((row) =>
        h("tr", { "data-key": key ? key(row) : null }, columns.map((column) =>
          h("td", { class: column.kind || null, "data-name": column.name }, column.of(row))))))));
}

function heading(column, sort, onSort) {
  const order = sort && column.sort && sort.by === column.sort ? (sort.up ? "ascending" : "descending") : null;
  const mark = order ? h("span", { "aria-hidden": "true" }, sort.up ? " ↑" : " ↓") : null;
  const text = column.sort && onSort ? h("button", { type: "button", onclick: () => onSort(column.sort) }, column.name, mark)
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
      if (sure && !window.confirm(visible(sure))) return;
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

/** What is wrong with a field: `urls.3` belongs to `urls`. */
const flawsOf = (error, name) => (error?.flaws || []).filter(({ field: at = "" }) => at === name || at.startsWith(`${name}.`));

/** Attributes of a field in which something is wrong, and the words below it. */
export function flawOf(error, name, id = `f-${name}`, role = null) {
  const found = flawsOf(error, name);
  if (!found.length) return [{}, null];
  return [{ "aria-invalid": "true", "aria-describedby": `${id}-flaw` },
    h("p", { class: "flaw", id: `${id}-flaw`, role }, found.map((flaw) => within(flaw, name) + flaw.detail).join("; "))];
}

function within(flaw, name) {
  const rest = flaw.field.slice(name.length + 1);
  return rest ? `${/^\d+$/.test(rest) ? `number ${Number(rest) + 1}` : rest}: ` : "";
}

export function field(name, label, attributes = {}, error = null) {
  const id = attributes.id || `f-${name}`;
  const [marks, words] = flawOf(error, name, id, attributes.alone ? "alert" : null);
  return h("div", { class: attributes.wide ? "wide" : null },
    h("label", { for: id }, label), h("input", { name, autocomplete: "off", ...attributes, ...marks, id, wide: null, alone: null }), words);
}

export function choice(name, label, options, chosen, onchange = null) {
  const id = `f-${name}`;
  return h("div", {}, h("label", { for: id }, label),
    h("select", { id, name, onchange }, options.map(([value, text]) =>
      h("option", { value, selected: value === chosen }, text))));
}

/** Before a form: everything that is wrong with it, each with a way to its field. */
export function flaws(error) {
  if (!error) return null;
  const each = (error.flaws?.length ? error.flaws : [{ field: "", detail: error.message }]).map(placed)
    .sort((one, other) => (comesBefore(other, one) ? 1 : comesBefore(one, other) ? -1 : 0));
  return h("div", { class: "flaws", role: "alert", tabindex: -1 },
    each.length > 1 ? h("p", {}, `${each.length} things are to be mended:`) : null,
    each.map(({ place, label, detail }) => h("p", { class: "flaw" }, place
      ? h("a", { href: `#${place.id}`, onclick: (event) => { event.preventDefault(); place.focus(); } }, label) : label,
    label ? ": " : "", detail)));
}

const comesBefore = (one, other) =>
  one.place && other.place && one.place.compareDocumentPosition(other.place) & Node.DOCUMENT_POSITION_FOLLOWING;

/** Where a flaw is on the page, and what people call that. */
function placed({ field: at = "", detail }) {
  const [name] = at.split("."), place = document.getElementById(`f-${name}`);
  const called = place?.labels[0]?.textContent || place?.getAttribute("aria-label") || name;
  return { place, label: [called, within({ field: at }, name).slice(0, -2)].filter(Boolean).join(", "), detail };
}

/** The first field that is to be mended, or what is said about the form. */
export function focusFlaw(form) { (form.querySelector("[aria-invalid]") || form.querySelector(".flaws"))?.focus(); }

/** What a form does: its errors are drawn at their fields, and the first one is gone to. */
export function submitted(work, draw) {
  return (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    once(form, async () => {
      try { await work(form); } catch (error) {
        if (error.name === "AbortError") return;
        draw(error);
        focusFlaw(form);
      }
    });
  };
}

/** Show a dialog until it is closed, or the view is left; the focus then goes back to where it was. */
export function modal(dialog, signal = null) {
  dialog.addEventListener("close", () => dialog.remove());
  signal?.addEventListener("abort", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
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
