// Who does the work.

import { again, ask } from "/ui/api.js";
import { fill, h } from "/ui/dom.js";
import { ago, number } from "/ui/format.js";
import { queues } from "/ui/overview.js";
import { notice, table } from "/ui/parts.js";

export async function workers(root, { signal }) {
  let seen = null, trouble = null;
  const draw = () => fill(root,
    h("div", { class: "head" }, h("h1", {}, "Workers")),
    trouble ? notice(trouble.message, "bad") : null,
    seen ? [
      h("section", { class: "card" }, table([
        { name: "Worker", kind: "whole", of: (row) => h("code", {}, row.name) },
        { name: "Queues", of: (row) => row.queues.join(", ") },
        { name: "Processes", kind: "n", of: (row) => number(row.processes) },
        { name: "At work", kind: "n", of: (row) => number(row.active) },
        { name: "Slices", kind: "n", of: (row) => number(row.slices) },
        { name: "Pages", kind: "n", of: (row) => number(row.pages) },
        { name: "Last progress", of: (row) => ago(row.last_progress_at) },
        { name: "Browsers", kind: "n", of: (row) => row.browsers ? `${number(row.browsers)}, ${number(row.rendering)} pages` : "–" },
        { name: "Memory", kind: "n", of: (row) => `${number(row.memory_mb)} MB` },
        { name: "Started", of: (row) => ago(row.started_at) },
        { name: "Version", of: (row) => row.version },
      ], seen.workers, { key: (row) => row.name, empty: "No worker is alive: start one with shoal worker, or with shoal up." })),
      h("section", { class: "card" }, h("h2", {}, "Queues"), queues(seen.queues)),
    ] : h("p", { class: "empty" }, "Loading…"));
  await again(2, signal, async () => {
    const [found, lined] = await Promise.all([ask("workers", { signal }), ask("queues", { signal })]);
    seen = { workers: found.data, queues: lined.data };
    draw();
  }, (error) => { trouble = error; if (error) draw(); });
}
