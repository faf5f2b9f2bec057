// Hosts: how fast each may be asked, in which state it is, and why.

import { at, drop, flawed, go, patch } from "/ui/api.js";
import { h, say } from "/ui/dom.js";
import { ms, number, span } from "/ui/format.js";
import { action, badge, beside, card, choice, field, form, grid, head, link, live, notice, plainly, table, tiles, values } from "/ui/parts.js";

const STATES = [["", "all"], "open", ["at_cap", "at cap"], "slowed", "held", "tripped", "down", "paused"];
const shown = (limit) => String(limit ?? "–");

const COLUMNS = [
  ["Host", (row) => link(row.host, at("hosts", row.host))],
  ["State", "state", "badge"],
  ["Why", "reason", "value"],
  ["In flight", "in_flight", "n"],
  ["Rate", (row) => shown(row.rate ?? row.pace), "n"],
  ["At once", (row) => shown(row.parallel), "n"],
  ["Answers in", (row) => ms(row.latency_ms), "n"],
  ["Jobs wait", "waiting_jobs", "n"],
  ["Used", "last_used_at", "ago"],
];
const DECISIONS = [["When", "at", "at"], ["What", "what"], ["Why", "reason", "value"]];
const ASKED = [
  ["When", "at", "at"], ["URL", "url", "url"], ["Status", (row) => String(row.status || row.reason), "n"],
  ["Limit", (row) => `${row.rate} (${row.source})`],
];

export function hosts(root, { parts: [name], asked, signal, get }) {
  if (name) return one(root, name, signal, get);
  const state = asked("state");
  return live(root, {
    signal, every: 3,
    load: () => get("hosts", { state, limit: 200 }),
    head: () => head("Hosts", form({ class: "push", work: open },
      field("host", "Open a host", "books.example"),
      choice("state", "State", STATES, state, (chosen) => go("hosts", { state: chosen })))),
    body: ({ found }) => card(table(COLUMNS, found.data, {
      key: "host", empty: "No host in this state was used lately.",
      caption: `${number(found.data.length)} hosts, the last used first${found.more ? ", and more" : ""}`,
    })),
  });
}

function open(given) {
  const { host } = values(given);
  if (host) go(at("hosts", host));
}

function one(root, name, signal, get) {
  const path = at("hosts", name);
  return live(root, {
    signal, every: 3,
    load: async () => ({ host: await get(path), audit: (await get(`${path}/audit`, { newest: true, limit: 20 })).data }),
    head: ({ found }) => head(name, found && badge(found.host.state)),
    body: (view) => detail(view, view.found, path),
  });
}

function detail(view, { host, audit }, path) {
  return [
    notice(host.reason),
    tiles(
      ["In flight", number(host.in_flight)],
      ["Rate", shown(host.rate), host.rate_source || "each job's own"],
      ["At once", shown(host.parallel), host.parallel_source || "each job's own"],
      ["Pace", shown(host.pace), "found out"],
      ["Crawl-delay", span(host.crawl_delay_seconds), "robots.txt"],
      ["Answers in", ms(host.latency_ms)],
      ["Held for", span(host.hold_seconds)],
      ["Breaker", host.breaker, host.probe_seconds > 0 && `probe in ${span(host.probe_seconds)}`],
      ["Jobs wait", number(host.waiting_jobs)]),
    limits(view, host, path),
    h("div.two.top",
      card("Decisions", table(DECISIONS, host.decisions, { empty: "Nothing was decided about it." })),
      card("Asked lately", table(ASKED, audit, { empty: "It was not asked so far." }))),
  ];
}

function limits(view, host, path) {
  const tell = async (wanted, text) => {
    if (!Object.keys(wanted).length) throw flawed("rate", "Write here, or in another field, what is to hold.");
    view.found.host = await patch(path, wanted);
    say(text);
    view.refuse(null);
  };
  return form({
    class: "card", heading: h("h2", "Your word, whatever the jobs say"), error: view.refusal, refuse: view.refuse,
    work: (given) => tell(plainly(values(given), "note"), "It holds from now on."),
  }, grid(view.refusal,
    ["rate", "Requests a second", "4, 30/m or unlimited"],
    ["parallel", "At once", "2 or unlimited"],
    ["hold_seconds", "Hold for seconds", { inputmode: "numeric" }],
    ["note", "Note", "who agreed to this"],
    beside(h("button.main", "Set"),
      host.paused ? action("Unpause", () => tell({ paused: false }, "It may be asked again."))
        : action("Pause", () => tell({ paused: true }, "It is not asked any more.")),
      action("Take back", () => drop(path), {
        said: "Taken back.", then: view.look, sure: "Take back everything that was set for this host?",
      }))));
}
