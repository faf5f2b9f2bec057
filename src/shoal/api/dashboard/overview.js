// Is the fleet well?

import { h } from "/ui/dom.js";
import { bytes, noted, number, plural, short, span } from "/ui/format.js";
import { jobColumns } from "/ui/jobs.js";
import { card, charts, code, head, live, lookBack, notice, past, table, tiles } from "/ui/parts.js";

const WELL = new Set(["open", "at_cap"]);
const ROUNDS = 5; // the past is asked for in each fifth round

export function overview(root, { signal, get }) {
  let round = 0, range = "15m", history = null;
  const look = async () => { history = await past(get, "stats/history", range); };
  return live(root, {
    signal, every: 2,
    load: async (view) => {
      const now = await get("overview"), running = await get("jobs", { state: "running", limit: 8 });
      if (round++ % ROUNDS === 0) await look();
      return { now, before: view.found?.now, running: running.data };
    },
    head: (view) => head("Overview", lookBack(range, (chosen) => { range = chosen; look().then(view.draw, () => {}); })),
    body: ({ found: { now, before, running } }) => [
      now.troubles.map((met) => notice(`${met.what}: ${met.message} (for ${span(met.seconds)}, ${met.worker})`, "bad")),
      numbers(now, before, history),
      charts(history),
      card("Jobs that run", table(jobColumns(), running, {
        empty: "No job runs.",
        caption: now.jobs.running > running.length ? `the ${running.length} newest of ${number(now.jobs.running)}` : null,
      })),
      queues(now.queues),
    ],
  });
}

function numbers(now, before, history) {
  const sum = (name) => now.queues.reduce((all, queue) => all + queue[name], 0), delayed = sum("delayed");
  const slowed = Object.entries(now.hosts).filter(([state]) => !WELL.has(state));
  const { memory_bytes: used, max_memory_bytes: most } = now.frontier;
  const full = used / most;
  return tiles(
    ["Pages a second", number(rate(now, before) ?? history?.points.findLast((point) => point.pages_per_s !== null)?.pages_per_s)],
    ["In flight", short(sum("leased"))],
    ["Queued", short(sum("queued")), delayed > 0 && `${short(delayed)} delayed`],
    ["Workers", number(now.workers), `${plural(now.processes, "process", "processes")}, ${number(now.active)} at work`,
      now.workers ? "" : "bad"],
    ["Jobs that run", number(now.jobs.running || 0), noted(now.jobs.paused, "paused")],
    ["Hosts throttled", number(slowed.reduce((all, [, count]) => all + count, 0)),
      slowed.map(([state, count]) => `${count} ${state}`).join(", ")],
    ["Redis memory", bytes(used), `of ${bytes(most)}`, full > 0.9 ? "bad" : full > 0.7 ? "warn" : ""],
    ["Leases lost", number(now.leases_reaped), "since the frontier began"]);
}

function rate(now, before) {
  const seconds = before ? (Date.parse(now.at) - Date.parse(before.at)) / 1000 : 0;
  return seconds > 0 && now.pages >= before.pages ? (now.pages - before.pages) / seconds : null;
}

export const queues = (rows) => card("Queues", table([
  ["Queue", (row) => code(row.queue), "whole"],
  ["Queued", "queued", "n"],
  ["Delayed", "delayed", "n"],
  ["In flight", "leased", "n"],
  ["Jobs", "jobs_due", "n"],
  ["Processes", (row) => h("span", { class: row.workers || !(row.queued + row.delayed) ? "" : "bad" }, number(row.workers)), "n"],
], rows, { key: "queue", small: true }));
