// One job: how it goes, and everything that came of it.

import { again, ask, flawed, listen, may } from "/ui/api.js";
import { fill, h, say, visible } from "/ui/dom.js";
import { ago, bytes, moment, number, short, span } from "/ui/format.js";
import { actions, errorsOf } from "/ui/jobs.js";
import { SPANS, action, badge, byReason, charts, choice, field, flaws, notice, past, plain, submitted, table, tile, tiles, values }
  from "/ui/parts.js";
import { changes } from "/ui/changes.js";
import { explain } from "/ui/explain.js";
import { dead, fields, items, pages } from "/ui/results.js";

const CHARTS = [
  { title: "Pages a second", lines: () => [{ name: "pages", of: (point) => point.pages_per_s }] },
  { title: "Errors a second, by reason", lines: byReason, empty: "No errors in this time." },
  {
    title: "Waiting and under way",
    lines: () => [["queued", "queued"], ["delayed", "delayed"], ["in flight", "leased"]]
      .map(([name, of]) => ({ name, of: (point) => point[of] })),
  },
];
const TABS = [
  ["", "Progress", progress], ["items", "Items", items], ["fields", "Fields", fields], ["pages", "Pages", pages],
  ["dead", "Dead letters", dead], ["changes", "Changes", changes], ["explain", "Explain a URL", explain], ["settings", "Settings", settings],
];

export async function job(root, { parts, query, signal }) {
  const [id, tab = ""] = parts;
  const seen = { job: await ask(`jobs/${id}`, { signal }), trouble: null };
  document.title = visible(`${seen.job.name || id} · Shoal`);
  const head = h("div", {}), body = h("div", {});
  root.replaceChildren(head, body);
  const drawn = new Set();
  const draw = () => { fill(head, ...top(seen, tab, changed)); drawn.forEach((one) => one()); };
  const changed = (now) => { Object.assign(seen.job, now); draw(); };
  draw();
  const look = async () => {
    const now = await ask(`jobs/${id}`, { signal });
    if (!now.ended_at) stream.wake();
    changed(now);
  };
  const failed = (error) => {
    seen.trouble = error;
    if (error?.status === 404) { say("The job was deleted."); location.hash = "#/jobs"; }
    else if (error) draw();
  };
  const stream = listen(id, signal, (kind, told) => {
    if (kind === "counters") changed(told);
    else look().catch(failed);
  });
  let rounds = 0; // what is shown was asked for a moment ago; and a stream that has fallen silent is noticed
  again(2, signal, async () => { if (rounds++ && (rounds % 2 || !stream.open)) await look(); }, failed);
  const [, , show] = TABS.find(([path]) => path === tab) || TABS[0];
  await show(body, { id, seen, query, signal, changed, whenDrawn: (one) => drawn.add(one) });
}

function top({ job: now, trouble }, tab, changed) {
  return [
    h("div", { class: "head" },
      h("h1", {}, now.name || now.id), badge(now.state), now.open ? badge("open") : null,
      h("span", { class: "soft" }, now.name ? `${now.id} · ` : "", `${now.engine} · ${now.lane} · ${ago(now.created_at)}`),
      h("div", { class: "push" },
        may("submit") && now.open ? action("Close", async () => changed(await ask(`jobs/${now.id}/close`, { method: "POST" })), { key: "close" }) : null,
        actions(now, changed))),
    trouble ? notice(trouble.message, "bad") : null,
    now.waiting_for ? notice(`It waits: ${now.waiting_for}`) : null,
    now.drift.map((one) => notice(`Drift: ${one.detail}`)),
    tiles(
      tile("Pages", number(now.pages), now.redirects ? `${number(now.redirects)} redirects` : null),
      tile("Waiting", short(now.pending), now.counters?.leased ? `${number(now.counters.leased)} in flight` : null),
      tile("Pages a second", number(now.rate)),
      tile("Errors", number(errorsOf(now)), now.counters?.retries ? `${number(now.counters.retries)} retries` : null,
        errorsOf(now) ? "bad" : ""),
      tile("Received", bytes(now.counters?.received ?? 0), carriedOver(now)),
      tile(now.ended_at ? "Took" : "Time left", span(now.ended_at ? now.elapsed_seconds : now.eta_seconds),
        now.started_at ? `since ${moment(now.started_at)}` : null)),
    h("nav", { class: "tabs", "aria-label": "Of this job" }, TABS.map(([path, name]) =>
      h("a", { href: `#/jobs/${now.id}/${path}`, "aria-current": path === tab ? "page" : null }, name))),
  ];
}

/** How many pages did not have to come again, and what that has saved. */
function carriedOver(now) {
  const told = Object.entries(now.carried ?? {}).map(([how, count]) => `${number(count)} ${how.replace("_", " ")}`);
  return told.length ? `${told.join(", ")}: ${bytes(now.counters?.saved ?? 0)} saved` : null;
}

async function progress(body, { id, seen, signal, whenDrawn }) {
  const kept = { history: null, range: "", examples: new Map() };
  const look = async () => { kept.history = await past(`jobs/${id}/history`, kept.range, signal); draw(); };
  const draw = () => fill(body, ...summary(seen.job, kept, (range) => { kept.range = range; look(); }, example));
  const example = async (reason) => {
    kept.examples.set(reason, (await ask(`jobs/${id}/errors?limit=3&reason=${encodeURIComponent(reason)}`, { signal })).data);
    draw();
  };
  whenDrawn(draw);
  draw();
  await again(10, signal, look, () => {});
}

function summary(now, { history, range, examples }, choose, example) {
  const reasons = Object.entries(now.errors).sort((one, other) => other[1] - one[1]);
  return [
    history ? h("div", { class: "head" }, h("div", { class: "push" },
      choice("range", "Look back", [["", "all of it"], ...SPANS], range, (event) => choose(event.target.value)))) : null,
    h("div", { class: "two" }, charts(history, CHARTS)),
    h("div", { class: "two top" },
      h("section", { class: "card" }, h("h2", {}, "Errors by reason"), reasons.length
        ? reasons.map(([reason, count]) => h("details", { "data-key": reason, onclick: () => examples.has(reason) || example(reason) },
          h("summary", {}, h("code", {}, reason), ` ${number(count)}`),
          (examples.get(reason) || []).map((row) => h("p", { class: "mono" }, row.url, h("br"), h("span", { class: "soft" }, row.detail)))))
        : h("p", { class: "empty" }, "None.")),
      h("section", { class: "card" }, h("h2", {}, "Slowest hosts"), table([
        { name: "Host", of: (row) => may("admin") ? h("a", { href: `#/hosts/${encodeURIComponent(row.host)}` }, row.host) : row.host },
        { name: "Time to answer", kind: "n", of: (row) => `${number(row.latency_ms)} ms` },
      ], now.slowest_hosts, { key: (row) => row.host, empty: "No host was asked yet." })),
      h("section", { class: "card" }, h("h2", {}, "Where everything went"), sums(now))),
  ];
}

function sums(now) {
  const all = now.totals;
  if (!all) return h("p", { class: "empty" }, "The frontier does not know this job at the moment.");
  const rows = [
    ["Fetched", all.fetched], ["Failed", all.failed], ["Filtered", all.filtered], ["Refused by robots.txt", all.robots],
    ["Seen before", all.duplicates], ["Waiting and under way", all.pending], ["Discovered, in all", all.discovered],
  ];
  return h("div", {}, table([{ name: "What", of: (row) => row[0] }, { name: "URLs", kind: "n", of: (row) => number(row[1]) }],
    rows, { key: (row) => row[0], small: true }),
  now.reconciles ? h("p", { class: "good" }, "The sums agree.") : h("p", { class: "bad" }, "The sums do not agree."));
}

async function settings(body, { id, seen, changed }) {
  const change = async (form) => {
    const given = values(form);
    if (!Object.keys(given).length) throw flawed("rate", "Write here, or in another field, what is to be changed.");
    const wanted = Object.fromEntries(Object.entries(given).map(([name, text]) => [name, plain(text)]));
    changed(await ask(`jobs/${id}`, { method: "PATCH", body: wanted }));
    say("Changed.");
    draw(null);
  };
  const draw = (error) => fill(body,
    may("submit") && !seen.job.ended_at ? h("form", { class: "card", novalidate: true, onsubmit: submitted(change, draw) },
    h("h2", {}, "Change while it runs"),
    flaws(error),
    h("div", { class: "form" },
      field("rate", "Requests a second to one host", { placeholder: `now ${seen.job.spec.rate ?? "as robots.txt says, or 4"}` }, error),
      field("parallel", "At once to one host", { placeholder: `now ${seen.job.spec.parallel ?? 2}` }, error),
      field("pages", "Pages at most", { inputmode: "numeric", placeholder: `now ${seen.job.spec.pages ?? "without a limit"}` }, error),
      field("weight", "Share against other jobs", { placeholder: `now ${seen.job.spec.weight}` }, error),
      h("button", { class: "main" }, "Change"))) : null,
    h("section", { class: "card" }, h("h2", {}, "As submitted"), h("pre", { tabindex: 0 }, JSON.stringify(seen.job.spec, null, 2))),
    may("submit") ? action("Delete the job and its data", async () => {
      await ask(`jobs/${id}`, { method: "DELETE" });
      location.hash = "#/jobs";
    }, { kind: "danger", sure: "Delete the job with its pages, items and bodies? This cannot be undone." }) : null);
  draw(null);
}
