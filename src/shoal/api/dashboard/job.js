// One job: how it goes, and everything that came of it.

import { again, at, drop, flawed, go, listen, may, patch, post } from "/ui/api.js";
import { changes } from "/ui/changes.js";
import { fill, h, say, visible } from "/ui/dom.js";
import { explain } from "/ui/explain.js";
import { ago, bytes, moment, ms, noted, number, short, span, word } from "/ui/format.js";
import { actions, errorsOf } from "/ui/jobs.js";
import { action, badge, beside, card, charts, code, failure, form, grid, head, json, link, lookBack, notice, past, plainly, table, tiles, values }
  from "/ui/parts.js";
import { dead, fields, items, pages } from "/ui/results.js";

const TABS = [
  ["", "Progress", progress], ["items", "Items", items], ["fields", "Fields", fields], ["pages", "Pages", pages],
  ["dead", "Dead letters", dead], ["changes", "Changes", changes], ["explain", "Explain a URL", explain], ["settings", "Settings", settings],
];

export async function job(root, { parts: [id, tab = ""], asked, signal, get }) {
  const seen = { job: await get(`jobs/${id}`), trouble: null };
  document.title = visible(`${seen.job.name || id} · Shoal`);
  const above = h("div"), body = h("div");
  root.replaceChildren(above, body);
  let below = () => {};
  const draw = () => { fill(above, top(seen, tab, changed)); below(); };
  const changed = (now) => { Object.assign(seen.job, now); draw(); };
  draw();
  const look = async () => {
    const now = await get(`jobs/${id}`);
    if (!now.ended_at) stream.wake();
    changed(now);
  };
  const failed = (error) => {
    seen.trouble = error;
    if (error?.status === 404) { say("The job was deleted."); go("jobs"); }
    else if (error) draw();
  };
  const stream = listen(id, signal, (kind, told) => {
    if (kind === "counters") changed(told);
    else look().catch(failed);
  });
  let rounds = 0; // what is shown was asked for a moment ago; and a stream that has fallen silent is noticed
  again(2, signal, async () => { if (rounds++ && (rounds % 2 || !stream.open)) await look(); }, failed);
  const [, , show] = TABS.find(([path]) => path === tab) || TABS[0];
  await show(body, { id, seen, asked, signal, get, changed, whenDrawn: (drawn) => { below = drawn; } });
}

function top({ job: now, trouble }, tab, changed) {
  const errors = errorsOf(now), { leased, retries, received = 0 } = now.counters ?? {};
  return [
    head(now.name || now.id, badge(now.state), now.open && badge("open"),
      h("span.soft", now.name ? `${now.id} · ` : "", `${now.engine} · ${now.lane} · ${ago(now.created_at)}`),
      h("div.push",
        may("submit") && now.open && action("Close", () => post(`jobs/${now.id}/close`), { then: changed }),
        actions(now, changed))),
    failure(trouble),
    now.waiting_for && notice(`It waits: ${now.waiting_for}`),
    now.drift.map((one) => notice(`Drift: ${one.detail}`)),
    tiles(
      ["Pages", number(now.pages), noted(now.redirects, "redirects")],
      ["Waiting", short(now.pending), noted(leased, "in flight")],
      ["Pages a second", number(now.rate)],
      ["Errors", number(errors), noted(retries, "retries"), errors ? "bad" : ""],
      ["Received", bytes(received), carriedOver(now)],
      [now.ended_at ? "Took" : "Time left", span(now.ended_at ? now.elapsed_seconds : now.eta_seconds),
        now.started_at && `since ${moment(now.started_at)}`]),
    h("nav.tabs", { "aria-label": "Of this job" }, TABS.map(([path, name]) =>
      h("a", { href: `#/jobs/${now.id}/${path}`, "aria-current": path === tab && "page" }, name))),
  ];
}

/** How many pages did not have to come again, and what that has saved. */
function carriedOver(now) {
  const told = Object.entries(now.carried ?? {}).map(([how, count]) => `${number(count)} ${word(how)}`);
  return told.length ? `${told.join(", ")}: ${bytes(now.counters?.saved ?? 0)} saved` : null;
}

async function progress(body, { id, seen, signal, get, whenDrawn }) {
  const kept = { history: null, range: "", examples: new Map() };
  const look = async () => { kept.history = await past(get, `jobs/${id}/history`, kept.range); draw(); };
  const draw = () => fill(body, summary(seen.job, kept, (range) => { kept.range = range; look(); }, example));
  const example = async (reason) => {
    kept.examples.set(reason, (await get(`jobs/${id}/errors`, { limit: 3, reason })).data);
    draw();
  };
  whenDrawn(draw);
  draw();
  await again(10, signal, look, () => {});
}

const SLOWEST = [
  ["Host", ({ host }) => (may("admin") ? link(host, at("hosts", host)) : host)],
  ["Time to answer", (row) => ms(row.latency_ms), "n"],
];

function summary(now, { history, range, examples }, choose, example) {
  const reasons = Object.entries(now.errors).sort((one, other) => other[1] - one[1]);
  return [
    history && head(lookBack(range, choose, [["", "all of it"]])),
    charts(history),
    h("div.two.top",
      card("Errors by reason", reasons.length
        ? reasons.map(([reason, count]) => h("details", { "data-key": reason, onclick: () => examples.has(reason) || example(reason) },
          h("summary", code(reason), ` ${number(count)}`),
          (examples.get(reason) || []).map((row) => h("p.mono", row.url, h("br"), h("span.soft", row.detail)))))
        : h("p.empty", "None.")),
      card("Slowest hosts", table(SLOWEST, now.slowest_hosts, { key: "host", empty: "No host was asked yet." })),
      card("Where everything went", sums(now, now.totals))),
  ];
}

function sums(now, all) {
  if (!all) return h("p.empty", "The frontier does not know this job at the moment.");
  const rows = [
    ["Fetched", all.fetched], ["Failed", all.failed], ["Filtered", all.filtered], ["Refused by robots.txt", all.robots],
    ["Seen before", all.duplicates], ["Waiting and under way", all.pending], ["Discovered, in all", all.discovered],
  ];
  return h("div", table([["What", 0], ["URLs", 1, "n"]], rows, { key: 0, small: true }),
    now.reconciles ? h("p.good", "The sums agree.") : h("p.bad", "The sums do not agree."));
}

async function settings(body, { id, seen, changed }) {
  const change = async (given) => {
    const wanted = plainly(values(given));
    if (!Object.keys(wanted).length) throw flawed("rate", "Write here, or in another field, what is to be changed.");
    changed(await patch(`jobs/${id}`, wanted));
    say("Changed.");
    draw(null);
  };
  const draw = (error) => fill(body, shown(seen.job, error));
  const shown = ({ ended_at: ended, spec }, error) => [
    may("submit") && !ended && form(
      { class: "card", heading: h("h2", "Change while it runs"), error, work: change, refuse: draw },
      grid(error,
        ["rate", "Requests a second to one host", `now ${spec.rate ?? "as robots.txt says, or 4"}`],
        ["parallel", "At once to one host", `now ${spec.parallel ?? 2}`],
        ["pages", "Pages at most", { inputmode: "numeric", placeholder: `now ${spec.pages ?? "without a limit"}` }],
        ["weight", "Share against other jobs", `now ${spec.weight}`],
        beside(h("button.main", "Change")))),
    card("As submitted", json(spec)),
    may("submit") && action("Delete the job and its data", () => drop(`jobs/${id}`), {
      kind: "danger", then: () => go("jobs"), sure: "Delete the job with its pages, items and bodies? This cannot be undone.",
    }),
  ];
  draw(null);
}
