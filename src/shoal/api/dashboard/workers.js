// Who does the work.

import { number } from "/ui/format.js";
import { queues } from "/ui/overview.js";
import { card, code, head, live, table } from "/ui/parts.js";

const COLUMNS = [
  ["Worker", (row) => code(row.name), "whole"],
  ["Queues", (row) => row.queues.join(", ")],
  ["Processes", "processes", "n"],
  ["At work", "active", "n"],
  ["Slices", "slices", "n"],
  ["Pages", "pages", "n"],
  ["Last progress", "last_progress_at", "ago"],
  ["Browsers", (row) => row.browsers ? `${number(row.browsers)}, ${number(row.rendering)} pages` : "–", "n"],
  ["Memory", (row) => `${number(row.memory_mb)} MB`, "n"],
  ["Started", "started_at", "ago"],
  ["Version", "version"],
];

export const workers = (root, { signal, get }) => live(root, {
  signal, every: 2,
  load: () => Promise.all([get("workers"), get("queues")]),
  head: () => head("Workers"),
  body: ({ found: [alive, lined] }) => [
    card(table(COLUMNS, alive.data, {
      key: "name", empty: "No worker is alive: start one with shoal worker, or with shoal up.",
    })),
    queues(lined.data),
  ],
});
