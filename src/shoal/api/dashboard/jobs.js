// All jobs: found, sorted, and told to pause, go on, end, or go at another pace.

import { again, ask, flawed, may, query } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { ago, number, percent, short, span } from "/ui/format.js";
import { action, badge, choice, field, flaws, modal, notice, plain, submitted, table, values } from "/ui/parts.js";

const STATES = [["", "all"], ["running", "running"], ["paused", "paused"], ["finished", "finished"],
  ["cancelled", "cancelled"]];
const ENDED = new Set(["finished", "cancelled"]);
const SORTS = [["created", "newest"], ["name", "name"], ["state", "state"], ["progress", "progress"], ["pages", "pages"],
  ["pending", "waiting"], ["errors", "errors"], ["rate", "pages/s"], ["eta", "ETA"]];
const ROWS = 50, TYPING_MS = 250;
const UPWARDS = new Set(["name", "eta"]);

export const link = (job) => `#/jobs/${encodeURIComponent(job.id)}`;
export const errorsOf = (job) => Object.values(job.errors).reduce((sum, count) => sum + count, 0);
const share = (job) => (job.pages + job.pending ? job.pages / (job.pages + job.pending) : ENDED.has(job.state) ? 1 : 0);
const named = (job) => job.name || job.id;

export function jobColumns(act = null) {
  return [
    {
      name: "Job", kind: "name", sort: "name",
      of: (job) => h("div", {}, h("a", { href: link(job) }, h("bdi", {}, named(job))),
        job.name ? h("small", { class: "soft" }, ` ${job.id}`) : null,
        job.drift.length ? h("span", { class: "warn" }, " drifted") : null),
    },
    { name: "State", sort: "state", of: (job) => badge(job.state) },
    {
      name: "Progress", sort: "progress",
      of: (job) => h("progress", { max: 1, value: share(job), "aria-label": `${percent(share(job))} of what is known` }),
    },
    { name: "Pages", kind: "n", sort: "pages", of: (job) => number(job.pages) },
    { name: "Waiting", kind: "n", sort: "pending", of: (job) => short(job.pending) },
    { name: "Errors", kind: "n", sort: "errors", of: (job) => number(errorsOf(job)) },
    { name: "Pages/s", kind: "n", sort: "rate", of: (job) => number(job.rate) },
    { name: "ETA", kind: "n", sort: "eta", of: (job) => span(job.eta_seconds) },
    { name: "Submitted", sort: "created", of: (job) => h("span", { title: job.created_at }, ago(job.created_at)) },
    ...(act ? [{ name: "Actions", of: (job) => h("div", { class: "row" }, actions(job, act)) }] : []),
  ];
}

/** Buttons for what can be done with a job now; `done` is called with how it stands after that. */
export function actions(job, done) {
  if (!may("submit") || ENDED.has(job.state)) return [];
  const tell = (what) => async () => {
    const changed = await ask(`jobs/${job.id}/${what}`, { method: "POST" });
    say(`${named(job)} is ${changed.state}.`);
    done(changed);
  };
  return [
    job.state === "paused" ? action("Resume", tell("resume"), { key: "turn" }) : action("Pause", tell("pause"), { key: "turn" }),
    h("button", { type: "button", "data-key": "rate", "aria-haspopup": "dialog", onclick: () => askRate(job, done) }, "Rate"),
    action("Cancel", tell("cancel"), {
      kind: "danger", key: "cancel", sure: `Cancel ${named(job)}? What waits is dropped; what is stored stays.`,
    }),
  ];
}

/** How fast a job may ask one host, from now on. */
function askRate(job, done) {
  const dialog = h("dialog", { "aria-label": `Rate of ${named(job)}`, class: "small" });
  const change = async (form) => {
    const { rate } = values(form);
    if (!rate) throw flawed("rate", "Write a number, a rate such as 30/m, or unlimited.");
    done(await ask(`jobs/${job.id}`, { method: "PATCH", body: { rate: plain(rate) } }));
    say(`${named(job)}: the rate is ${rate} from now on.`);
    dialog.close();
  };
  const draw = (error) => fill(dialog, h("form", { novalidate: true, onsubmit: submitted(change, draw) },
    h("h2", {}, "Rate of ", h("bdi", {}, named(job))),
    error?.flaws?.length ? null : flaws(error),
    field("rate", "Requests a second to one host", {
      id: "job-rate", alone: true, placeholder: "4, 30/m or unlimited", value: job.spec.rate ?? "",
    }, error),
    h("p", { class: "row" }, h("button", { class: "main" }, "Set the rate"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
  draw(null);
  modal(dialog);
}

/** One page of the list is asked for and drawn at a time, however many jobs there are. */
export async function jobs(root, { query: asked, signal }) {
  const wanted = Object.fromEntries(["state", "label", "find", "sort", "order"].map((name) => [name, asked.get(name) || ""]));
  const seen = { rows: [], more: false, cursor: null, before: [], trouble: null, loaded: false, turn: 0 };
  const look = async () => {
    const turn = ++seen.turn;
    const found = await ask(`jobs${query({ ...wanted, limit: ROWS, cursor: seen.before.at(-1) })}`, { signal });
    if (turn !== seen.turn) return;
    Object.assign(seen, { rows: found.data, more: found.more, cursor: found.cursor, loaded: true, trouble: null });
    draw();
  };
  const failed = (error) => { seen.trouble = error; if (error) draw(); };
  const change = (values) => {
    Object.assign(wanted, values);
    seen.before = [];
    history.replaceState(null, "", `#/jobs${query(wanted)}`);
    return look().catch((error) => signal.aborted || failed(error));
  };
  const draw = () => fill(root, ...page(seen, wanted, { look, change, draw }));
  await again(2, signal, look, failed);
}

function page(seen, wanted, { look, change, draw }) {
  const changed = (job) => { seen.rows = seen.rows.map((one) => (one.id === job.id ? job : one)); draw(); };
  const sort = { by: wanted.sort || "created", up: wanted.order === "asc" };
  const onSort = (by) => {
    const up = by === sort.by ? !sort.up : UPWARDS.has(by);
    change({ sort: by, order: up ? "asc" : "desc" });
  };
  const from = seen.before.length * ROWS;
  return [
    h("div", { class: "head" }, h("h1", {}, "Jobs"),
      h("div", { class: "push" },
        choice("state", "State", STATES, wanted.state, (event) => change({ state: event.target.value })),
        h("div", { class: "narrow" }, choice("sort", "Sorted by", SORTS, sort.by, (event) => onSort(event.target.value))),
        field("find", "Find a name, id or label", { type: "search", value: wanted.find, oninput: typed((find) => change({ find })) }, seen.trouble),
        field("label", "Label", { value: wanted.label, size: 12, onchange: (event) => change({ label: event.target.value.trim() }) }, seen.trouble))),
    seen.trouble ? notice(seen.trouble.message, "bad") : null,
    h("section", { class: "card" }, seen.loaded ? table(jobColumns(changed), seen.rows, {
      caption: seen.rows.length ? `Jobs ${number(from + 1)} to ${number(from + seen.rows.length)}${seen.more ? ", and more" : ""}` : null,
      key: (job) => job.id, sort, onSort, empty: "No such job.",
    }) : h("p", { class: "empty" }, "Loading…"),
    seen.before.length || seen.more ? h("p", { class: "row" },
      seen.before.length ? action("Back", () => { seen.before.pop(); return look(); }, { key: "back" }) : null,
      seen.more ? action("Further jobs", () => { seen.before.push(seen.cursor); return look(); }, { key: "on" }) : null) : null),
  ];
}

let pause = 0;
/** Told when nobody has typed for a moment. */
function typed(told) {
  return (event) => {
    const text = event.target.value.trim();
    clearTimeout(pause);
    pause = setTimeout(() => told(text), TYPING_MS);
  };
}
