// Lines over time, as SVG. A reader without eyes gets the last and the highest value of each line.

import { h } from "/ui/dom.js";
import { moment, number, short } from "/ui/format.js";

const WIDTH = 440, HEIGHT = 150, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 22;

/** A figure. series: [{ name, values: [number|null…] }], times: [ms…], the same length. */
export function chart({ title, times, series, empty = "Nothing was measured in this time." }) {
  const shown = series.filter((one) => one.values.some((value) => value !== null));
  if (!times.length || !shown.length) return h("figure", h("h2", title), h("p.empty", empty));
  const most = nice(Math.max(0.1, ...shown.flatMap((one) => one.values.map((value) => value ?? 0))));
  const [from, to] = [times[0], times.at(-1)];
  const x = (time) => LEFT + ((time - from) / Math.max(1, to - from)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const point = (svg, at) => {
    const place = at === null ? -9 : x(times[at]);
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    svg.nextElementSibling.replaceChildren(...legend(shown, times, at));
  };
  const svg = h(
    "svg.chart",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${spoken(shown)}`,
      onpointermove: (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
        point(event.currentTarget, nearest(times, from + share * (to - from)));
      },
      onpointerleave: (event) => point(event.currentTarget, null),
    },
    [0, most / 2, most].map((value) => [
      h("line.grid", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      h("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value < 10 ? String(Number(value.toFixed(2))) : short(value)),
    ]),
    h("text", { x: LEFT, y: HEIGHT - 6 }, clock(from, to - from)),
    h("text", { x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, clock(to, to - from)),
    shown.map((one, index) => h("path", { class: `l s${index % 7}`, d: line(one.values, times, x, y) })),
    h("line.cursor", { y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 }),
  );
  return h("figure", h("h2", title), svg, h("p.legend", legend(shown, times, null)));
}

/** The lines with their last values, or with those of one time. */
function legend(series, times, at) {
  const names = series.map(({ name, values }, index) =>
    h("span",
      h("svg", { width: 14, height: 8, "aria-hidden": "true" },
        h("line", { class: `l s${index % 7}`, x1: 0, x2: 14, y1: 4, y2: 4, "stroke-width": 3 })),
      ` ${name} ${number(at === null ? values.findLast((value) => value !== null) : values[at])}`));
  return at === null ? names : [h("span", moment(times[at])), ...names];
}

function spoken(series) {
  return series.map((one) => {
    const values = one.values.filter((value) => value !== null);
    return `${one.name}: now ${number(values.at(-1))}, at most ${number(Math.max(...values))}`;
  }).join("; ");
}

function line(values, times, x, y) {
  let path = "", down = false;
  values.forEach((value, index) => {
    if (value === null) { down = false; return; }
    path += `${down ? "L" : "M"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!down && (values[index + 1] ?? null) === null) path += "h0.1";
    down = true;
  });
  return path;
}

const nearest = (times, time) => times.reduce((best, one, index) => (Math.abs(one - time) < Math.abs(times[best] - time) ? index : best), 0);

function nice(value) {
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * step).find((bound) => bound >= value) ?? value;
}

function clock(time, range) {
  const at = new Date(time);
  const day = range > 20 * 3600e3 ? `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ` : "";
  return day + at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
