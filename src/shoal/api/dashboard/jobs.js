// All jobs: found, sorted, and told to pause, go on or end.

import { again, ask, may, query } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { ago, number, percent, short, span } from "/ui/format.js";
import { action, badge, choice, notice, table } from "/ui/parts.js";

const STATES = [["", "all"], ["running", "running"], ["paused", "paused"], ["finished", "finished"],
  ["cancelled", "cancelled"]];
const ENDED = new Set(["finished", "cancelled"]);

export const link = (job) => `#/jobs/${encodeURIComponent(job.id)}`;
export const errorsOf = (job) => Object.values(job.errors).reduce((sum, count) => sum + count, 0);
const share = (job) => (job.pages + job.pending ? job.pages / (job.pages + job.pending) : ENDED.has(job.state) ? 1 : 0);

export function jobColumns(act = null) {
  return [
    {
      name: "Job", kind: "name", sort: (job) => job.name || job.id,
      of: (job) => h("div", {}, h("a", { href: link(job) }, job.name || job.id),
        job.name ? h("small", { class: "soft" }, ` ${job.id}`) : null,
        job.drift.length ? h("span", { class: "warn" }, " drifted") : null),
    },
    { name: "State", sort: (job) => job.state, of: (job) => badge(job.state) },
    {
      name: "Progress", sort: share,
      of: (job) => h("progress", { max: 1, value: share(job), "aria-label": `${percent(share(job))} of what is known` }),
    },
    { name: "Pages", kind: "n", sort: (job) => job.pages, of: (job) => number(job.pages) },
    { name: "Waiting", kind: "n", sort: (job) => job.pending, of: (job) => short(job.pending) },
    { name: "Errors", kind: "n", sort: errorsOf, of: (job) => number(errorsOf(job)) },
    { name: "Pages/s", kind: "n", sort: (job) => job.rate, of: (job) => number(job.rate) },
    { name: "ETA", kind: "n", sort: (job) => job.eta_seconds ?? Infinity, of: (job) => span(job.eta_seconds) },
    { name: "Submitted", sort: (job) => job.created_at, of: (job) => h("span", { title: job.created_at }, ago(job.created_at)) },
    ...(act ? [{ name: "Actions", of: (job) => h("div", { class: "row" }, actions(job, act)) }] : []),
  ];
}

/** Buttons for what can be done with a job now; `done` is called with how it stands after that. */
export function actions(job, done) {
  if (!may("submit") || ENDED.has(job.state)) return [];
  const tell = (what) => async () => {
    const changed = await ask(`jobs/${job.id}/${what}`, { method: "POST" });
    say(`${job.name || job.id} is ${changed.state}.`);
    done(changed);
  };
  return [
    job.state === "paused" ? action("Resume", tell("resume"), { key: "turn" }) : action("Pause", tell("pause"), { key: "turn" }),
    action("Cancel", tell("cancel"), {
      kind: "danger", key: "cancel", sure: `Cancel ${job.name || job.id}? What waits is dropped; what is stored stays.`,
    }),
  ];
}

export async function jobs(root, { query: asked, signal }) {
  const seen = { rows: [], more: false, cursor: null, trouble: null, sort: null, text: "", loaded: false };
  const wanted = { state: asked.get("state") || "", label: asked.get("label") || "" };
  const look = async () => {
    const found = await ask(`jobs${query({ ...wanted, limit: 100 })}`, { signal });
    const ids = new Set(found.data.map((job) => job.id));
    const older = seen.older ? seen.rows.filter((job) => !ids.has(job.id) && job.created_at <= (found.data.at(-1)?.created_at ?? "")) : [];
    Object.assign(seen, { rows: [...found.data, ...older], loaded: true });
    if (!seen.older) Object.assign(seen, { more: found.more, cursor: found.cursor });
    draw();
  };
  const further = async () => {
    const found = await ask(`jobs${query({ ...wanted, limit: 100, cursor: seen.cursor })}`, { signal });
    Object.assign(seen, { rows: [...seen.rows, ...found.data], more: found.more, cursor: found.cursor, older: true });
    draw();
  };
  const draw = () => fill(root, ...page(seen, wanted, { further, draw }));
  await again(2, signal, look, (error) => { seen.trouble = error; if (error) draw(); });
}

function page(seen, wanted, { further, draw }) {
  const go = (values) => { location.hash = `#/jobs${query({ ...wanted, ...values })}`; };
  const text = seen.text.toLowerCase();
  const rows = seen.rows.filter((job) => !text || `${job.name} ${job.id} ${job.labels.join(" ")}`.toLowerCase().includes(text));
  const changed = (job) => { seen.rows = seen.rows.map((one) => (one.id === job.id ? job : one)); draw(); };
  const onSort = (column) => {
    seen.sort = { name: column.name, of: column.sort, down: seen.sort?.name === column.name ? !seen.sort.down : true };
    draw();
  };
  return [
    h("div", { class: "head" }, h("h1", {}, "Jobs"),
      h("div", { class: "push" },
        choice("state", "State", STATES, wanted.state, (event) => go({ state: event.target.value })),
        h("div", {}, h("label", { for: "find" }, "Find"),
          h("input", { id: "find", type: "search", oninput: (event) => { seen.text = event.target.value; draw(); } })),
        h("div", {}, h("label", { for: "label" }, "Label"),
          h("input", { id: "label", value: wanted.label, size: 12, onchange: (event) => go({ label: event.target.value }) })))),
    seen.trouble ? notice(seen.trouble.message, "bad") : null,
    h("section", { class: "card" }, seen.loaded ? table(jobColumns(changed), sorted(rows, seen.sort), {
      caption: `${number(rows.length)} jobs${seen.more ? ", and older ones" : ""}`, key: (job) => job.id, sort: seen.sort, onSort,
      empty: text ? `No such job among the ${number(seen.rows.length)} newest.` : "No such job.",
    }) : h("p", { class: "empty" }, "Loading…"),
    seen.more ? action("Older jobs", further) : null),
  ];
}

function sorted(rows, sort) {
  if (!sort) return rows;
  const order = (one, other) => (sort.of(one) < sort.of(other) ? -1 : sort.of(one) > sort.of(other) ? 1 : 0);
  return [...rows].sort((one, other) => (sort.down ? -order(one, other) : order(one, other)));
}
