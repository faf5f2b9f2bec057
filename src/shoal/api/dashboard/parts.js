// What several views show: views that look again, tiles, tables, forms, charts of the past, and buttons that do something.

import { again, query } from "/ui/api.js";
import { chart } from "/ui/chart.js";
import { byId, fill, h, say, visible } from "/ui/dom.js";
import { ago, moment, number, word } from "/ui/format.js";

const MOODS = Object.fromEntries(Object.entries({
  good: "running done open active delivered enabled stored new",
  wait: "paused waiting starting unknown",
  warn: "cancelled robots filtered slowed held changed",
  bad: "failed disabled tripped down gone",
}).flatMap(([mood, states]) => states.split(" ").map((state) => [state, mood])));
const SPANS = [["15m", "15 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["1d", "1 day"], ["7d", "7 days"]];

export const badge = (state) => h("span", { class: `state ${MOODS[state] || "soft"}` }, word(state));
export const code = (text) => h("code", text);
export const link = (text, path, values) => h("a", { href: `#/${path}${query(values)}` }, text);
/** Something that a text, where one comes first, is the title of. */
const titled = (kind, heading) => (...inner) => h(kind, typeof inner[0] === "string" && h(heading, inner.shift()), inner);
export const head = titled("div.head", "h1");
export const card = titled("section.card", "h2");
export const beside = (...all) => h("div.row", all);
export const json = (value) => h("pre", { tabindex: 0 }, JSON.stringify(value, null, 2));
export const notice = (text, mood = "") => (text ? h("p", { class: `notice ${mood}`, role: "status", "data-key": text }, text) : null);
export const failure = (error) => notice(error?.message, "bad");

/** Numbers with their names: [name, value, note, mood] of each. */
export const tiles = (...all) => h("dl.tiles", all.map(([name, value, note, mood]) =>
  h("div.tile", { "data-key": name }, h("dt", name), h("dd", { class: mood }, value, note && h("small", note)))));

/**
 * A view that looks again and again. `load` asks for what is found; `head` and, once there is something, `body` draw it.
 * Both are given the view: what was found, what is wrong with its form, and how to look and to draw at once.
 */
export async function live(root, { signal, every, load, head: above = () => null, body }) {
  let turn = 0;
  const view = {
    found: null, error: null, refusal: null,
    draw() {
      const empty = view.error ? null : h("p.empty", "Loading…");
      fill(root, above(view), failure(view.error), view.found ? body(view) : empty);
    },
    async look() {
      const mine = ++turn;
      const found = await load(view);
      if (mine === turn) view.take(found);
    },
    /** What was found, whatever a look that is under way will find. */
    take(found) {
      turn += 1;
      Object.assign(view, { found, error: null });
      view.draw();
    },
    failed(error) {
      view.error = error;
      if (error) view.draw();
    },
    refuse(error) {
      view.refusal = error;
      view.draw();
    },
  };
  view.draw();
  await again(every, signal, view.look, view.failed);
}

/** What a kind of column makes of a value. The kind is the class of its cells, too. */
const KINDS = { n: number, at: moment, ago, url: outside, badge, code };

function cell([, of, kind], one) {
  if (typeof of === "function") return of(one);
  return KINDS[kind] ? KINDS[kind](one[of]) : one[of] || "–";
}

/** columns: [name, field of a row or function of it, kind, what the API sorts by]; key: the field that tells rows apart; shown: what they are. */
export function table(columns, rows, { shown, empty = "Nothing here.", key = "id", sort, onSort, small, ...more } = {}) {
  const caption = shown ? `${number(rows.length)} ${shown} shown` : more.caption;
  if (!rows.length) return h("p.empty", empty);
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": caption || "Table" },
    h("table", { class: !small && "stack" },
      caption && h("caption", caption),
      h("thead", h("tr", columns.map((column) => heading(column, sort, onSort)))),
      h("tbody", rows.map((one) => h("tr", { "data-key": one[key] }, columns.map((column) =>
        h("td", { class: column[2], "data-name": column[0] }, cell(column, one))))))));
}

function heading([name, , kind, by], sort, onSort) {
  const order = by && sort?.by === by && (sort.up ? "ascending" : "descending");
  const mark = order && h("span", { "aria-hidden": "true" }, sort.up ? " ↑" : " ↓");
  return h("th", { scope: "col", class: kind === "n" && "n", "aria-sort": order },
    by && onSort ? button([name, mark], () => onSort(by)) : name);
}

/** The link of a scraped page: shown as text, and opened only as what it is. */
function outside(url) {
  return /^https?:\/\//i.test(url)
    ? h("a", { href: url, rel: "noreferrer noopener nofollow", target: "_blank" }, url) : h("span", url);
}

/**
 * A button for something that takes a moment and may be refused; it keeps the focus, and is not pressed twice.
 * It may be asked whether one is `sure`; after `work`, `said` is told and `then` is done.
 */
export function action(text, work, { kind = "", sure = "", key = text, said = "", then = () => {} } = {}) {
  return button(text, (event) => {
    if (sure && !window.confirm(visible(sure))) return;
    once(event.currentTarget, async () => {
      try {
        const done = await work();
        if (said) say(said);
        await then(done);
      } catch (error) { if (error.name !== "AbortError") say(error.message); }
    });
  }, { class: kind, "data-key": key });
}

export const button = (text, onclick, attributes) => h("button", { type: "button", onclick, ...attributes }, text);

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

/** `4` is a number for the API, `30/m` a text, and so is all that is called one. */
export function plainly(given, ...texts) {
  return Object.fromEntries(Object.entries(given).map(([name, text]) =>
    [name, texts.includes(name) || !/^-?\d+(\.\d+)?$/.test(text) ? text : Number(text)]));
}

/** What a flaw is about: `urls.3` is number 4 of the field `urls`. */
function aimed({ field: path = "" }) {
  const [name, ...rest] = path.split("."), inner = rest.join(".");
  return [name, /^\d+$/.test(inner) ? `number ${Number(inner) + 1}` : inner];
}

const joined = (sign, ...texts) => texts.filter(Boolean).join(sign);

/** Attributes of a field in which something is wrong, and the words below it. */
export function flawOf(error, name, id = `f-${name}`, role = null) {
  const found = (error?.flaws || []).filter((flaw) => aimed(flaw)[0] === name);
  if (!found.length) return [{}, null];
  const words = found.map((flaw) => joined(": ", aimed(flaw)[1], flaw.detail)).join("; ");
  return [{ "aria-invalid": "true", "aria-describedby": `${id}-flaw` }, h("p.flaw", { id: `${id}-flaw`, role }, words)];
}

/** A label with its input, of which attributes or only a placeholder are given; `told` hears what is written; `alone`: nothing else on the page says what is wrong with it. */
export function field(name, label, given = {}, error = null) {
  const { wide, alone, area, told, id = `f-${name}`, ...attributes } = typeof given === "string" ? { placeholder: given } : given;
  const [marks, words] = flawOf(error, name, id, alone && "alert");
  return h("div", { class: wide && "wide" }, h("label", { for: id }, label),
    h(area ? "textarea" : "input", { id, name, autocomplete: "off", onchange: changed(told), ...attributes, ...marks }), words);
}

const changed = (told) => (told ? (event) => told(event.target.value.trim()) : null);

/** options: texts, or [value, text]. */
export function choice(name, label, options, chosen, told) {
  const id = `f-${name}`, each = options.map((one) => [one].flat());
  return h("div", h("label", { for: id }, label), h("select", { id, name, onchange: changed(told) },
    each.map(([value, text = value]) => h("option", { value, selected: value === chosen }, text))));
}

/** Fields side by side: [name, label, attributes or placeholder] of an input, [name, label, options, chosen] of a choice, or elements. */
export const grid = (error, ...all) => h("div.form", all.map((one) => {
  if (!Array.isArray(one)) return one;
  const [name, label, what, chosen] = one;
  return Array.isArray(what) ? choice(name, label, what, chosen) : field(name, label, what, error);
}));

/** A form which the API checks: what is wrong stands above it and at its fields, and the first one is gone to. */
export function form({ heading: title, work, refuse, error, ...attributes }, ...inner) {
  const onsubmit = (event) => {
    event.preventDefault();
    const place = event.currentTarget;
    once(place, async () => {
      try { await work(place); } catch (refusal) {
        if (refusal.name === "AbortError") return;
        refuse(refusal);
        focusFlaw(place);
      }
    });
  };
  return h("form", { novalidate: true, onsubmit, ...attributes }, title, flaws(error), inner);
}

/** A form of one field, in a dialog: what is wrong with it stands there and is not said twice. */
export function lone(named, title, work, [name, label, attributes], ...inner) {
  const dialog = h("dialog.small", named);
  const draw = (error) => fill(dialog, form({ heading: title, work, refuse: draw, error: error?.flaws?.length ? null : error },
    field(name, label, { ...attributes, alone: true }, error), inner));
  draw(null);
  return modal(dialog);
}

/** Before a form: everything that is wrong with it, each with a way to its field. */
function flaws(error) {
  if (!error) return null;
  const order = [...document.querySelectorAll("input, select, textarea")];
  const each = (error.flaws?.length ? error.flaws : [{ detail: error.message }]).map(placed)
    .sort((one, other) => order.indexOf(one.place) - order.indexOf(other.place));
  return h("div.flaws", { role: "alert", tabindex: -1, "data-key": "flaws" },
    each.length > 1 && h("p", `${each.length} things are to be mended:`),
    each.map(({ place, label, detail }) => h("p.flaw", place
      ? h("a", { href: `#${place.id}`, onclick: (event) => { event.preventDefault(); place.focus(); } }, label) : label,
    label ? ": " : "", detail)));
}

/** Where a flaw is on the page, and what people call that. */
function placed(flaw) {
  const [name, inner] = aimed(flaw), place = byId(`f-${name}`);
  const called = place?.labels[0]?.textContent || place?.getAttribute("aria-label") || name;
  return { place, label: joined(", ", called, inner), detail: flaw.detail };
}

/** The first field that is to be mended, or what is said about the form. */
export function focusFlaw(form) { (form.querySelector("[aria-invalid]") || form.querySelector(".flaws"))?.focus(); }

/** Shows a dialog until it is closed, or the view is left; the focus then goes back to where it was. */
export function modal(dialog, signal = null) {
  dialog.addEventListener("close", () => dialog.remove());
  signal?.addEventListener("abort", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** The time that charts look back; `all` is what stands for no bound. */
export const lookBack = (range, told, all = []) => h("div.push", choice("range", "Look back", [...all, ...SPANS], range, told));

/** Ask for the past of a job or of the fleet: null when there is none to be had. */
export const past = (get, path, since) => get(path, { since, points: 120 }).catch((error) => {
  if (error.status === 404) return null;
  throw error;
});

/** A line of a chart for each of these fields of a point. */
const lines = (named) => () => Object.entries(named).map(([name, of]) => [name, (point) => point[of]]);
const CHARTS = [
  ["Pages a second", lines({ pages: "pages_per_s" })],
  ["Errors a second, by reason", byReason, "No errors in this time."],
  ["Waiting and under way", lines({ queued: "queued", delayed: "delayed", "in flight": "leased" })],
];

export function charts(history) {
  const points = history?.points ?? [], times = points.map((point) => Date.parse(point.at));
  const series = (drawn) => drawn(points).map(([name, of]) => ({ name, values: points.map((point) => of(point) ?? null) }));
  return h("div.two", history && CHARTS.map(([title, drawn, empty]) =>
    h("div.card", { "data-key": title }, chart({ title, empty, times, series: series(drawn) }))));
}

/** The reasons with the most events. */
function byReason(points) {
  const sums = {};
  for (const [reason, rate] of points.flatMap((point) => Object.entries(point.reasons || {}))) {
    if (!reason.startsWith("done")) sums[reason] = (sums[reason] || 0) + (rate || 0);
  }
  return Object.entries(sums).sort((one, other) => other[1] - one[1]).slice(0, 6)
    .map(([name]) => [name, (point) => (point.pages_per_s === null ? null : point.reasons?.[name] ?? 0)]);
}
