// Numbers, times and sizes as people read them.

const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : NUMBERS.format(value));
export const short = (value) => (value === null || value === undefined ? "–" : SHORT.format(value));
export const percent = (share) => (Number.isFinite(share) ? `${NUMBERS.format(share * 100)} %` : "–");

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function ago(text) {
  return text ? `${span(Math.max(0, (Date.now() - Date.parse(text)) / 1000))} ago` : "–";
}

export function moment(text) {
  if (!text) return "–";
  const at = new Date(text);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}

/** Any JSON value in one line, cut. */
export function brief(value, most = 200) {
  const text = typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
