// Schedules: jobs again and again. When each runs next, what became of its slots, and a form for a new one.

import { again, ask, may, query } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { moment, number, span } from "/ui/format.js";
import { action, badge, choice, field, flaws, notice, once, table, tile, tiles, values } from "/ui/parts.js";

const CATCH_UP = [["once", "run once for all of them"], ["skip", "skip them"], ["all", "run all, one by one"]];
const OVERLAP = [["skip", "skip the slot"], ["queue", "wait for it"], ["cancel", "cancel it"]];
const pathOf = (name) => `schedules/${encodeURIComponent(name)}`;
const soon = (text) => (text ? `${moment(text)}, in ${span(Math.max(0, (Date.parse(text) - Date.now()) / 1000))}` : "–");

export async function schedules(root, { parts, signal }) {
  if (parts[0] === "new" && parts.length === 1) return add(root, signal);
  if (parts[0]) return one(root, parts[0], signal);
  let found = null, trouble = null;
  const look = async () => { found = await ask(`schedules${query({ limit: 500 })}`, { signal }); draw(); };
  const draw = () => fill(root,
    h("div", { class: "head" }, h("h1", {}, "Schedules"),
      may("submit") ? h("a", { class: "push", href: "#/schedules/new" }, "New schedule") : null),
    trouble ? notice(trouble.message, "bad") : null,
    h("section", { class: "card" }, found ? list(found, look) : h("p", { class: "empty" }, "Loading…")));
  await again(5, signal, look, (error) => { trouble = error; if (error) draw(); });
}

function list(found, look) {
  const waits = found.data.find((row) => row.waiting_for)?.waiting_for;
  return [waits ? notice(waits, "bad") : null, table([
    { name: "Name", of: (row) => h("a", { href: `#/${pathOf(row.name)}` }, row.name) },
    { name: "State", of: (row) => badge(row.state) },
    { name: "When", of: (row) => row.words },
    { name: "Next", of: (row) => soon(row.next_at) },
    { name: "Last", kind: "value", of: (row) => (row.last ? outcome(row.last) : "–") },
    { name: "", of: (row) => buttons(row, look) },
  ], found.data, {
    key: (row) => row.name, empty: "No schedules so far.",
    caption: `${number(found.data.length)} schedules by name${found.more ? ", and more" : ""}`,
  })];
}

function outcome(run) {
  const sums = run.pages === null ? run.detail || run.reason || "" : `${number(run.pages)} pages, ${number(run.failed)} failed, ${number(run.items)} items in ${span(run.seconds)}`;
  return [badge(run.state), run.slots > 1 ? ` ${number(run.slots)} slots` : "", sums ? ` ${sums}` : ""];
}

function buttons(row, look, gone = look) {
  if (!may("submit")) return null;
  const change = (what, text) => async () => { await ask(`${pathOf(row.name)}/${what}`, { method: "POST" }); say(text); await look(); };
  return h("div", { class: "row" },
    action("Run now", async () => {
      const run = await ask(`${pathOf(row.name)}/run`, { method: "POST" });
      say(run.job ? `Job ${run.job} was started.` : `${run.state}: ${run.detail || run.reason || ""}`);
      await look();
    }, { key: `run-${row.name}` }),
    row.state === "paused" ? action("Resume", change("resume", "It goes on."), { key: `go-${row.name}` })
      : action("Pause", change("pause", "It is paused."), { key: `stop-${row.name}` }),
    action("Remove", async () => { await ask(pathOf(row.name), { method: "DELETE" }); say("Removed; its jobs stay."); await gone(); },
      { key: `rm-${row.name}`, sure: `Remove ${row.name} with its history?` }));
}

async function one(root, name, signal) {
  const kept = { row: null, runs: [], slots: null, trouble: null };
  const look = async () => {
    kept.row = await ask(pathOf(name), { signal });
    kept.runs = (await ask(`${pathOf(name)}/runs${query({ limit: 100 })}`, { signal })).data;
    kept.slots = await ask(`${pathOf(name)}/preview`, { signal });
    draw();
  };
  const draw = () => fill(root, ...detail(name, kept, look));
  await again(5, signal, look, (error) => { kept.trouble = error; if (error) draw(); });
}

function detail(name, { row, runs, slots, trouble }, look) {
  const head = h("div", { class: "head" }, h("h1", {}, name), row ? badge(row.state) : null,
    row ? buttons(row, look, () => { location.hash = "#/schedules"; }) : null);
  if (!row) return [head, trouble ? notice(trouble.message, "bad") : h("p", { class: "empty" }, "Loading…")];
  return [
    head,
    trouble ? notice(trouble.message, "bad") : null,
    row.waiting_for ? notice(row.waiting_for, "bad") : null,
    tiles(
      tile("When", row.words), tile("Next", soon(row.next_at)), tile("Jitter", span(row.jitter)),
      tile("Missed slots", row.catch_up), tile("Overlap", row.overlap),
      tile("From", row.start || "–"), tile("Until", row.end || "–"), tile("URLs", number(row.url_count), row.urls[0])),
    h("section", { class: "card" }, h("h2", {}, "History"), table([
      { name: "Slot", of: (run) => moment(run.slot) },
      { name: "Kind", of: (run) => run.kind.replace("_", " ") },
      { name: "Job", of: (run) => (run.job ? h("a", { href: `#/jobs/${run.job}` }, run.job) : "–") },
      { name: "Late", kind: "n", of: (run) => span(run.late_seconds) },
      { name: "Outcome", kind: "value", of: (run) => outcome(run) },
    ], runs, { key: (run) => run.id, empty: "No slot has come so far." })),
    h("div", { class: "two" },
      h("section", { class: "card" }, h("h2", {}, "Next slots"), times(slots)),
      h("section", { class: "card" }, h("h2", {}, "Job"), h("pre", {}, JSON.stringify(row.job, null, 2)))),
  ];
}

function times(slots) {
  return table([
    { name: "In its time zone", of: (slot) => slot.local }, { name: "For you", of: (slot) => moment(slot.slot) },
  ], slots?.data || [], { key: (slot) => slot.slot, empty: "No slot will come." });
}

async function add(root, signal) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const kept = { refusal: null, slots: null };
  const draw = () => fill(root, h("div", { class: "head" }, h("h1", {}, "New schedule")), form(kept, zone, draw, signal),
    kept.slots ? h("section", { class: "card", "aria-live": "polite" }, h("h2", {}, "It would run"), h("p", {}, kept.slots.words), times(kept.slots)) : null);
  draw();
}

function form(kept, zone, draw, signal) {
  const attempt = (work) => async () => {
    kept.refusal = null;
    try { await work(); } catch (error) { kept.refusal = error; }
    draw();
  };
  return h("form", {
    id: "schedule",
    onsubmit: (event) => {
      event.preventDefault();
      const given = event.currentTarget;
      once(given, attempt(async () => {
        const { name, job, from, ...rest } = values(given);
        const made = await ask("schedules", { body: { name, ...timing(rest), job: read(job) }, signal });
        say(`${made.name} runs ${soon(made.next_at)}.`);
        location.hash = may("read") ? `#/${pathOf(made.name)}` : "#/";
      }));
    },
  },
  h("section", { class: "card" }, h("div", { class: "form" },
    field("name", "Name", { required: true, placeholder: "nightly" }),
    field("cron", "Cron: minute, hour, day, month, weekday", { placeholder: "0 3 * * *" }),
    field("every", "Or every", { placeholder: "6h" }),
    field("timezone", "Time zone", { value: zone }),
    field("jitter", "Later by chance, up to", { placeholder: "10m" }),
    field("start", "Not before", { placeholder: "2026-12-01" }),
    field("end", "Not after", { placeholder: "2027-12-01T08:00" }),
    choice("catch_up", "Slots that were missed", CATCH_UP, "once"),
    choice("overlap", "While the run before goes on", OVERLAP, "skip"))),
  h("section", { class: "card" },
    h("div", { class: "form" },
      h("div", { class: "wide" }, h("label", { for: "f-job" }, "Job, as JSON"),
        h("textarea", { id: "f-job", name: "job", required: true, rows: 8, spellcheck: "false", placeholder: '{"urls": ["https://books.example/"], "pages": 500}' })),
      field("from", "Or with the settings of this job", { placeholder: "its id" })),
    h("p", { class: "row" }, may("read") ? action("Take them", attempt(() => take(signal)), { key: "take" }) : null)),
  flaws(kept.refusal),
  h("p", { class: "row" }, h("button", { class: "main" }, "Add the schedule"),
    may("read") ? action("Show the next slots", attempt(async () => {
      const { name, job, from, ...rest } = values(document.getElementById("schedule"));
      kept.slots = await ask("schedule-preview", { body: timing(rest), signal });
    }), { key: "slots" }) : null));
}

const timing = (given) => Object.fromEntries(Object.entries(given).filter(([, text]) => text));

function read(text) {
  try { return JSON.parse(text); } catch (error) { throw new Error(`The job is no JSON: ${error.message}`); }
}

/** Of an earlier job: its URLs are no part of what is shown, so those stay to be written. */
async function take(signal) {
  const { from } = values(document.getElementById("schedule"));
  if (!from) throw new Error("Write the id of a job first.");
  const { spec } = await ask(`jobs/${encodeURIComponent(from)}`, { signal });
  const plain = Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length) && !(typeof value === "object" && !Object.keys(value).length)));
  document.getElementById("f-job").value = JSON.stringify({ urls: [`https://${(spec.hosts || [])[0] || "books.example"}/`], ...plain }, null, 2);
}
