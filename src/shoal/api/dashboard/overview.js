// Is the fleet well?

import { again, ask } from "/ui/api.js";
import { fill, h } from "/ui/dom.js";
import { bytes, number, plural, short, span } from "/ui/format.js";
import { SPANS, byReason, charts, choice, notice, past, table, tile, tiles } from "/ui/parts.js";
import { jobColumns } from "/ui/jobs.js";

const WELL = new Set(["open", "at_cap"]);
const CHARTS = [
  { title: "Pages a second", lines: () => [{ name: "pages", of: (point) => point.pages_per_s }] },
  { title: "Errors a second, by reason", lines: byReason, empty: "No errors in this time." },
  {
    title: "Waiting and under way",
    lines: () => [["queued", "queued"], ["delayed", "delayed"], ["in flight", "leased"]]
      .map(([name, of]) => ({ name, of: (point) => point[of] })),
  },
];

export async function overview(root, { signal }) {
  const seen = { now: null, before: null, running: [], history: null, range: "15m", trouble: null };
  const draw = () => fill(root, ...page(seen, (range) => { seen.range = range; look().then(draw, () => {}); }));
  const look = async () => { seen.history = await past("stats/history", seen.range, signal); };
  let round = 0;
  await again(2, signal, async () => {
    const now = await ask("overview", { signal });
    const running = await ask("jobs?state=running&limit=8", { signal });
    Object.assign(seen, { before: seen.now, now, running: running.data });
    if (round++ % 5 === 0) await look();
    draw();
  }, (error) => { seen.trouble = error; if (error) draw(); });
}

function page({ now, before, running, history, range, trouble }, choose) {
  const said = trouble ? notice(trouble.message, "bad") : null;
  if (!now) return [said || h("p", { class: "empty" }, "Loading…")];
  return [
    h("div", { class: "head" }, h("h1", {}, "Overview"),
      h("div", { class: "push" }, choice("range", "Look back", SPANS, range, (event) => choose(event.target.value)))),
    said,
    now.troubles.map((met) => notice(`${met.what}: ${met.message} (for ${span(met.seconds)}, ${met.worker})`, "bad")),
    numbers(now, before, history),
    h("div", { class: "two" }, charts(history, CHARTS)),
    h("section", { class: "card" }, h("h2", {}, "Jobs that run"),
      table(jobColumns(), running, {
        key: (job) => job.id, empty: "No job runs.",
        caption: now.jobs.running > running.length ? `the ${running.length} newest of ${number(now.jobs.running)}` : null,
      })),
    h("section", { class: "card" }, h("h2", {}, "Queues"), queues(now.queues)),
  ];
}

function numbers(now, before, history) {
  const waiting = now.queues.reduce((sum, queue) => sum + queue.queued, 0);
  const delayed = now.queues.reduce((sum, queue) => sum + queue.delayed, 0);
  const leased = now.queues.reduce((sum, queue) => sum + queue.leased, 0);
  const slowed = Object.entries(now.hosts).filter(([state]) => !WELL.has(state));
  const throttled = slowed.reduce((sum, [, count]) => sum + count, 0);
  const { memory_bytes: used, max_memory_bytes: most } = now.frontier;
  const full = used / most;
  return tiles(
    tile("Pages a second", number(rate(now, before) ?? history?.points.findLast((point) => point.pages_per_s !== null)?.pages_per_s)),
    tile("In flight", short(leased)),
    tile("Queued", short(waiting), delayed ? `${short(delayed)} delayed` : null),
    tile("Workers", number(now.workers), `${plural(now.processes, "process", "processes")}, ${number(now.active)} at work`,
      now.workers ? "" : "bad"),
    tile("Jobs that run", number(now.jobs.running || 0), now.jobs.paused ? `${number(now.jobs.paused)} paused` : null),
    tile("Hosts throttled", number(throttled), slowed.map(([state, count]) => `${count} ${state}`).join(", ") || null),
    tile("Redis memory", bytes(used), `of ${bytes(most)}`, full > 0.9 ? "bad" : full > 0.7 ? "warn" : ""),
    tile("Leases lost", number(now.leases_reaped), "since the frontier began"),
  );
}

function rate(now, before) {
  const seconds = before ? (Date.parse(now.at) - Date.parse(before.at)) / 1000 : 0;
  return seconds > 0 && now.pages >= before.pages ? (now.pages - before.pages) / seconds : null;
}

export function queues(rows) {
  return table([
    { name: "Queue", kind: "whole", of: (row) => h("code", {}, row.queue) },
    { name: "Queued", kind: "n", of: (row) => number(row.queued) },
    { name: "Delayed", kind: "n", of: (row) => number(row.delayed) },
    { name: "In flight", kind: "n", of: (row) => number(row.leased) },
    { name: "Jobs", kind: "n", of: (row) => number(row.jobs_due) },
    {
      name: "Processes", kind: "n",
      of: (row) => h("span", { class: row.workers || !(row.queued + row.delayed) ? "" : "bad" }, number(row.workers)),
    },
  ], rows, { key: (row) => row.queue, small: true });
}
