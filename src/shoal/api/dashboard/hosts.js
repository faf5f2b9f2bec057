// Hosts: how fast each may be asked, in which state it is, and why.

import { again, ask, flawed, query } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { ago, moment, number, span } from "/ui/format.js";
import { action, badge, choice, field, flaws, notice, outside, plain, submitted, table, tile, tiles, values } from "/ui/parts.js";

const STATES = [["", "all"], ..."open at_cap slowed held tripped down paused".split(" ").map((one) => [one, one.replace("_", " ")])];
const shown = (limit) => (limit === null || limit === undefined ? "–" : String(limit));

export async function hosts(root, { parts, query: asked, signal }) {
  if (parts[0]) return one(root, parts[0], signal);
  const state = asked.get("state") || "";
  let found = null, trouble = null;
  const draw = () => fill(root,
    h("div", { class: "head" }, h("h1", {}, "Hosts"),
      h("form", {
        class: "push", onsubmit: (event) => {
          event.preventDefault();
          const name = values(event.currentTarget).host;
          if (name) location.hash = `#/hosts/${encodeURIComponent(name)}`;
        },
      }, field("host", "Open a host", { placeholder: "books.example" }),
      choice("state", "State", STATES, state, (event) => { location.hash = `#/hosts${query({ state: event.target.value })}`; }))),
    trouble ? notice(trouble.message, "bad") : null,
    h("section", { class: "card" }, found ? table([
      { name: "Host", of: (row) => h("a", { href: `#/hosts/${encodeURIComponent(row.host)}` }, row.host) },
      { name: "State", of: (row) => badge(row.state) },
      { name: "Why", kind: "value", of: (row) => row.reason || "–" },
      { name: "In flight", kind: "n", of: (row) => number(row.in_flight) },
      { name: "Rate", kind: "n", of: (row) => shown(row.rate ?? row.pace) },
      { name: "At once", kind: "n", of: (row) => shown(row.parallel) },
      { name: "Answers in", kind: "n", of: (row) => row.latency_ms === null ? "–" : `${number(row.latency_ms)} ms` },
      { name: "Jobs wait", kind: "n", of: (row) => number(row.waiting_jobs) },
      { name: "Used", of: (row) => ago(row.last_used_at) },
    ], found.data, {
      key: (row) => row.host, empty: "No host in this state was used lately.",
      caption: `${number(found.data.length)} hosts, the last used first${found.more ? ", and more" : ""}`,
    }) : h("p", { class: "empty" }, "Loading…")));
  await again(3, signal, async () => {
    found = await ask(`hosts${query({ state, limit: 200 })}`, { signal });
    draw();
  }, (error) => { trouble = error; if (error) draw(); });
}

async function one(root, name, signal) {
  const kept = { host: null, audit: [], refusal: null, trouble: null };
  const path = `hosts/${encodeURIComponent(name)}`;
  const look = async () => {
    kept.host = await ask(path, { signal });
    kept.audit = (await ask(`${path}/audit${query({ newest: true, limit: 20 })}`, { signal })).data;
    draw();
  };
  const tell = async (wanted, text) => {
    if (!Object.keys(wanted).length) throw flawed("rate", "Write here, or in another field, what is to hold.");
    kept.host = await ask(path, { method: "PATCH", body: wanted });
    say(text);
    refuse(null);
  };
  const refuse = (error) => { kept.refusal = error; draw(); };
  const draw = () => fill(root, ...detail(name, kept, tell, look, path, refuse));
  await again(3, signal, look, (error) => { kept.trouble = error; if (error) draw(); });
}

function detail(name, { host, audit, refusal, trouble }, tell, look, path, refuse) {
  const head = h("div", { class: "head" }, h("h1", {}, name), host ? badge(host.state) : null);
  if (!host) return [head, trouble ? notice(trouble.message, "bad") : h("p", { class: "empty" }, "Loading…")];
  return [
    head,
    trouble ? notice(trouble.message, "bad") : null,
    host.reason ? notice(host.reason) : null,
    tiles(
      tile("In flight", number(host.in_flight)),
      tile("Rate", shown(host.rate), host.rate_source || "each job's own"),
      tile("At once", shown(host.parallel), host.parallel_source || "each job's own"),
      tile("Pace", shown(host.pace), "found out"),
      tile("Crawl-delay", span(host.crawl_delay_seconds), "robots.txt"),
      tile("Answers in", host.latency_ms === null ? "–" : `${number(host.latency_ms)} ms`),
      tile("Held for", span(host.hold_seconds)),
      tile("Breaker", host.breaker, host.probe_seconds ? `probe in ${span(host.probe_seconds)}` : null),
      tile("Jobs wait", number(host.waiting_jobs))),
    h("form", {
      class: "card", novalidate: true, onsubmit: submitted((form) => tell(Object.fromEntries(Object.entries(values(form))
        .map(([key, text]) => [key, key === "note" ? text : plain(text)])), "It holds from now on."), refuse),
    },
    h("h2", {}, "Your word, whatever the jobs say"),
    flaws(refusal),
    h("div", { class: "form" },
      field("rate", "Requests a second", { placeholder: "4, 30/m or unlimited" }, refusal),
      field("parallel", "At once", { placeholder: "2 or unlimited" }, refusal),
      field("hold_seconds", "Hold for seconds", { inputmode: "numeric" }, refusal),
      field("note", "Note", { placeholder: "who agreed to this" }, refusal),
      h("div", { class: "row" }, h("button", { class: "main" }, "Set"),
        host.paused ? action("Unpause", () => tell({ paused: false }, "It may be asked again."), { key: "go" })
          : action("Pause", () => tell({ paused: true }, "It is not asked any more."), { key: "stop" }),
        action("Take back", async () => { await ask(path, { method: "DELETE" }); say("Taken back."); await look(); },
          { key: "back", sure: "Take back everything that was set for this host?" })))),
    h("div", { class: "two top" },
      h("section", { class: "card" }, h("h2", {}, "Decisions"), table([
        { name: "When", of: (row) => moment(row.at) }, { name: "What", of: (row) => row.what },
        { name: "Why", kind: "value", of: (row) => row.reason },
      ], host.decisions, { empty: "Nothing was decided about it." })),
      h("section", { class: "card" }, h("h2", {}, "Asked lately"), table([
        { name: "When", of: (row) => moment(row.at) }, { name: "URL", kind: "url", of: (row) => outside(row.url) },
        { name: "Status", kind: "n", of: (row) => row.status ? String(row.status) : row.reason },
        { name: "Limit", of: (row) => `${row.rate} (${row.source})` },
      ], audit, { key: (row) => row.id, empty: "It was not asked so far." }))),
  ];
}
