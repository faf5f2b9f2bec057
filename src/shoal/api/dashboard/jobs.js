// All jobs: found, sorted, and told to pause, go on, end, or go at another pace.

import { flawed, may, patch, post, query } from "/ui/api.js";
import { h, say } from "/ui/dom.js";
import { ago, number, percent, short, span } from "/ui/format.js";
import { action, badge, beside, button, card, choice, field, head, link, live, lone, plainly, table, values } from "/ui/parts.js";

const STATES = [["", "all"], "running", "paused", "finished", "cancelled"];
const ENDED = new Set(["finished", "cancelled"]);
const SORTS = [["created", "newest"], "name", "state", "progress", "pages", ["pending", "waiting"], "errors", ["rate", "pages/s"], ["eta", "ETA"]];
const ROWS = 50, TYPING_MS = 250;
const UPWARDS = new Set(["name", "eta"]);

export const errorsOf = (job) => Object.values(job.errors).reduce((sum, count) => sum + count, 0);
const share = (job) => (job.pages + job.pending ? job.pages / (job.pages + job.pending) : ENDED.has(job.state) ? 1 : 0);
const named = (job) => job.name || job.id;

export const jobColumns = (act = null) => [
  ["Job", (job) => h("div", link(h("bdi", named(job)), `jobs/${job.id}`),
    job.name && h("small", ` ${job.id}`), job.drift.length > 0 && h("span.warn", " drifted")), "name", "name"],
  ["State", "state", "badge", "state"],
  ["Progress", (job) => h("progress", { max: 1, value: share(job), "aria-label": `${percent(share(job))} of what is known` }), "", "progress"],
  ["Pages", "pages", "n", "pages"],
  ["Waiting", (job) => short(job.pending), "n", "pending"],
  ["Errors", (job) => number(errorsOf(job)), "n", "errors"],
  ["Pages/s", "rate", "n", "rate"],
  ["ETA", (job) => span(job.eta_seconds), "n", "eta"],
  ["Submitted", (job) => h("span", { title: job.created_at }, ago(job.created_at)), "", "created"],
  ...(act ? [["Actions", (job) => beside(actions(job, act))]] : []),
];

/** Buttons for what can be done with a job now; `done` is called with how it stands after that. */
export function actions(job, done) {
  if (!may("submit") || ENDED.has(job.state)) return [];
  const tell = (text, what, more) => action(text, () => post(`jobs/${job.id}/${what}`), {
    key: what, ...more, then: (changed) => { say(`${named(job)} is ${changed.state}.`); done(changed); },
  });
  return [
    job.state === "paused" ? tell("Resume", "resume", { key: "turn" }) : tell("Pause", "pause", { key: "turn" }),
    button("Rate", () => askRate(job, done), { "data-key": "rate", "aria-haspopup": "dialog" }),
    tell("Cancel", "cancel", { kind: "danger", sure: `Cancel ${named(job)}? What waits is dropped; what is stored stays.` }),
  ];
}

/** How fast a job may ask one host, from now on. */
function askRate(job, done) {
  const change = async (form) => {
    const given = values(form);
    if (!given.rate) throw flawed("rate", "Write a number, a rate such as 30/m, or unlimited.");
    done(await patch(`jobs/${job.id}`, plainly(given)));
    say(`${named(job)}: the rate is ${given.rate} from now on.`);
    dialog.close();
  };
  const dialog = lone({ "aria-label": `Rate of ${named(job)}` }, h("h2", "Rate of ", h("bdi", named(job))), change,
    ["rate", "Requests a second to one host", { id: "job-rate", placeholder: "4, 30/m or unlimited", value: job.spec.rate ?? "" }],
    h("p.row", h("button.main", "Set the rate"), button("Leave it", () => dialog.close())));
}

/** One page of the list is asked for and drawn at a time, however many jobs there are. */
export function jobs(root, { asked, signal, get }) {
  const wanted = Object.fromEntries(["state", "label", "find", "sort", "order"].map((name) => [name, asked(name)]));
  const before = []; // where the pages began that lie before this one
  const order = () => ({ by: wanted.sort || "created", up: wanted.order === "asc" });
  const change = (view) => (values) => {
    Object.assign(wanted, values);
    before.length = 0;
    history.replaceState(null, "", `#/jobs${query(wanted)}`);
    view.look().catch((error) => signal.aborted || view.failed(error));
  };
  const sorted = (view) => (by) => {
    const now = order(), up = by === now.by ? !now.up : UPWARDS.has(by);
    change(view)({ sort: by, order: up ? "asc" : "desc" });
  };
  return live(root, {
    signal, every: 2,
    load: () => get("jobs", { ...wanted, limit: ROWS, cursor: before.at(-1) }),
    head: (view) => head("Jobs", filters(wanted, order().by, change(view), sorted(view), view.error)),
    body: (view) => page(view, before, order(), sorted(view)),
  });
}

const filters = (wanted, by, change, sorted, error) => h("div.push",
  choice("state", "State", STATES, wanted.state, (state) => change({ state })),
  h("div.narrow", choice("sort", "Sorted by", SORTS, by, sorted)),
  field("find", "Find a name, id or label", { type: "search", value: wanted.find, oninput: typed((find) => change({ find })) }, error),
  field("label", "Label", { value: wanted.label, size: 12, told: (label) => change({ label }) }, error));

function page(view, before, sort, onSort) {
  const { data, more, cursor } = view.found, from = before.length * ROWS;
  const changed = (job) => view.take({ ...view.found, data: view.found.data.map((one) => (one.id === job.id ? job : one)) });
  return card(
    table(jobColumns(changed), data, {
      caption: `Jobs ${number(from + 1)} to ${number(from + data.length)}${more ? ", and more" : ""}`, sort, onSort, empty: "No such job.",
    }),
    h("p.row",
      before.length > 0 && action("Back", () => { before.pop(); return view.look(); }),
      more && action("Further jobs", () => { before.push(cursor); return view.look(); })));
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
