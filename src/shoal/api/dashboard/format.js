// Numbers, times and sizes as people read them.

const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** A format in which what is not known is a dash. */
const known = (format) => (value) => (value == null || Number.isNaN(value) ? "–" : format(value));

export const number = known((value) => NUMBERS.format(value));
export const short = known((value) => SHORT.format(value));
export const percent = known((share) => `${NUMBERS.format(share * 100)} %`);
export const ms = known((value) => `${NUMBERS.format(value)} ms`);

export const bytes = known((value) => {
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
});

export const span = known((seconds) => {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
});

/** How far away a time is, whether it has been or will be. */
const distance = (text, sign) => span(Math.max(0, (sign * (Date.parse(text) - Date.now())) / 1000));

export const ago = known((text) => `${distance(text, -1)} ago`);
export const soon = known((text) => `${moment(text)}, in ${distance(text, 1)}`);

export const moment = known((text) => {
  const at = new Date(text);
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
});

/** A word of the API, as people write it. */
export const word = (text) => String(text).replaceAll("_", " ");

/** Any JSON value in one line, cut. */
export function brief(value, most = 200) {
  const text = typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** A number with what it is of, unless there is none. */
export const noted = (count, what) => (count ? `${number(count)} ${what}` : null);

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
