// Lines over time, as SVG. A reader without eyes gets the last and the highest value of each line.

import { h } from "/ui/dom.js";
import { moment, number, short } from "/ui/format.js";

const WIDTH = 440, HEIGHT = 150, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 22;

/**
 * series: [{ name, values: [number|null…] }], times: [ms…], the same length.
 * Returns a figure; `unit` stands behind each value.
 */
export function chart({ title, times, series, unit = "", empty = "Nothing was measured in this time." }) {
  const shown = series.filter((one) => one.values.some((value) => value !== null));
  if (!times.length || !shown.length) return h("figure", {}, h("h2", {}, title), h("p", { class: "empty" }, empty));
  const most = nice(Math.max(0.1, ...shown.flatMap((one) => one.values.map((value) => value ?? 0))));
  const [from, to] = [times[0], times.at(-1)];
  const x = (time) => LEFT + ((time - from) / Math.max(1, to - from)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const point = (svg, at) => {
    const place = at === null ? -9 : x(times[at]);
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    svg.nextElementSibling.replaceChildren(...legend(shown, unit, at ?? times.length - 1, at === null ? null : times[at]));
  };
  const svg = h(
    "svg",
    {
      class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${spoken(shown, unit)}`,
      onpointermove: (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
        point(event.currentTarget, nearest(times, from + share * (to - from)));
      },
      onpointerleave: (event) => point(event.currentTarget, null),
    },
    [0, 0.5, 1].map((share) => [
      h("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share * most), y2: y(share * most) }),
      h("text", { x: LEFT - 6, y: y(share * most) + 4, "text-anchor": "end" }, share * most < 10 ? String(Number((share * most).toFixed(2))) : short(share * most)),
    ]),
    h("text", { x: LEFT, y: HEIGHT - 6 }, clock(from, to - from)),
    h("text", { x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, clock(to, to - from)),
    shown.map((one, index) => h("path", { class: `l s${index % 7}`, d: line(one.values, times, x, y) })),
    h("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 }),
  );
  const words = legend(shown, unit, times.length - 1, null);
  return h("figure", { class: "figure" }, h("h2", {}, title), svg, h("p", { class: "legend" }, words));
}

function legend(series, unit, at, time) {
  const names = series.map((one, index) =>
    h("span", {},
      h("svg", { width: 14, height: 8, "aria-hidden": "true" },
        h("line", { class: `l s${index % 7}`, x1: 0, x2: 14, y1: 4, y2: 4, "stroke-width": 3 })),
      ` ${one.name} ${number(time ? one.values[at] : one.values.findLast((value) => value !== null))}${unit ? ` ${unit}` : ""}`));
  return time ? [h("span", {}, moment(new Date(time).toISOString())), ...names] : names;
}

function spoken(series, unit) {
  return series.map((one) => {
    const values = one.values.filter((value) => value !== null);
    return `${one.name}: now ${number(values.at(-1))} ${unit}, at most ${number(Math.max(...values))}`;
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

function nearest(times, time) {
  let best = 0;
  times.forEach((one, index) => { if (Math.abs(one - time) < Math.abs(times[best] - time)) best = index; });
  return best;
}

function nice(value) {
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * step).find((bound) => bound >= value) ?? value;
}

function clock(time, range) {
  const at = new Date(time);
  const day = range > 20 * 3600e3 ? `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ` : "";
  return day + at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
