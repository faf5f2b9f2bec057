// Schedules: jobs again and again. When each runs next, what became of its slots, and a form for a new one.

import { at, drop, flawed, go, may, post } from "/ui/api.js";
import { byId, fill, h, say } from "/ui/dom.js";
import { number, soon, span, word } from "/ui/format.js";
import { action, badge, beside, card, focusFlaw, form, grid, head, json, link, live, notice, table, tiles, values } from "/ui/parts.js";

const CATCH_UP = [["once", "run once for all of them"], ["skip", "skip them"], ["all", "run all, one by one"]];
const OVERLAP = [["skip", "skip the slot"], ["queue", "wait for it"], ["cancel", "cancel it"]];

export function schedules(root, { parts, signal, get }) {
  const [name] = parts;
  if (name === "new" && parts.length === 1) return add(root, signal, get);
  if (name) return one(root, name, signal, get);
  return live(root, {
    signal, every: 5,
    load: () => get("schedules", { limit: 500 }),
    head: () => head("Schedules", may("submit") && h("a.push", { href: "#/schedules/new" }, "New schedule")),
    body: ({ found, look }) => card(
      notice(found.data.find((row) => row.waiting_for)?.waiting_for, "bad"),
      table(columns(look), found.data, {
        key: "name", empty: "No schedules so far.",
        caption: `${number(found.data.length)} schedules by name${found.more ? ", and more" : ""}`,
      })),
  });
}

const columns = (look) => [
  ["Name", (row) => link(row.name, at("schedules", row.name))],
  ["State", "state", "badge"],
  ["When", "words"],
  ["Next", (row) => soon(row.next_at)],
  ["Last", (row) => (row.last ? outcome(row.last) : "–"), "value"],
  ["", (row) => buttons(row, look)],
];

function outcome(run) {
  const sums = run.pages === null ? run.detail || run.reason
    : `${number(run.pages)} pages, ${number(run.failed)} failed, ${number(run.items)} items in ${span(run.seconds)}`;
  return [badge(run.state), run.slots > 1 ? ` ${number(run.slots)} slots` : "", sums ? ` ${sums}` : ""];
}

function buttons(row, look, gone = look) {
  if (!may("submit")) return null;
  const path = at("schedules", row.name);
  const turn = (text, what, said) => action(text, () => post(`${path}/${what}`), { said, then: look, key: "turn" });
  return beside(
    action("Run now", () => post(`${path}/run`), {
      then: async (run) => {
        say(run.job ? `Job ${run.job} was started.` : `${run.state}: ${run.detail || run.reason || ""}`);
        await look();
      },
    }),
    row.state === "paused" ? turn("Resume", "resume", "It goes on.") : turn("Pause", "pause", "It is paused."),
    action("Remove", () => drop(path), { said: "Removed; its jobs stay.", then: gone, sure: `Remove ${row.name} with its history?` }));
}

const HISTORY = [
  ["Slot", "slot", "at"],
  ["Kind", (run) => word(run.kind)],
  ["Job", (run) => (run.job ? link(run.job, `jobs/${run.job}`) : "–")],
  ["Late", (run) => span(run.late_seconds), "n"],
  ["Outcome", outcome, "value"],
];

function one(root, name, signal, get) {
  const path = at("schedules", name);
  return live(root, {
    signal, every: 5,
    load: async () => ({ row: await get(path), runs: (await get(`${path}/runs`, { limit: 100 })).data, slots: await get(`${path}/preview`) }),
    head: ({ found, look }) => head(name, found && [badge(found.row.state), buttons(found.row, look, () => go("schedules"))]),
    body: ({ found: { row, runs, slots } }) => [
      notice(row.waiting_for, "bad"),
      tiles(
        ["When", row.words], ["Next", soon(row.next_at)], ["Jitter", span(row.jitter)], ["Missed slots", row.catch_up],
        ["Overlap", row.overlap], ["From", row.start || "–"], ["Until", row.end || "–"], ["URLs", number(row.url_count), row.urls[0]]),
      card("History", table(HISTORY, runs, { empty: "No slot has come so far." })),
      h("div.two", card("Next slots", times(slots)), card("Job", json(row.job))),
    ],
  });
}

const times = (slots) => table([["In its time zone", "local"], ["For you", "slot", "at"]], slots.data, { key: "slot", empty: "No slot will come." });

function add(root, signal, get) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const kept = { error: null, slots: null };
  const refuse = (error) => { kept.error = error; draw(); };
  /** A button of the form that does something with what is written there. */
  const button = (text, work) => may("read") && action(text, async () => {
    const place = byId("schedule");
    try { await work(values(place)); refuse(null); } catch (error) { refuse(error); focusFlaw(place); }
  });
  const submit = async (place) => {
    const { job, from, ...given } = values(place);
    const made = await post("schedules", { ...given, job: parsed(job) }, { signal });
    say(`${made.name} runs ${soon(made.next_at)}.`);
    go(may("read") ? at("schedules", made.name) : "");
  };
  const show = async ({ name, job, from, ...timing }) => { kept.slots = await post("schedule-preview", timing, { signal }); };
  const draw = () => fill(root, head("New schedule"),
    form({ id: "schedule", error: kept.error, work: submit, refuse },
      card(grid(kept.error,
        ["name", "Name", { required: true, placeholder: "nightly" }],
        ["cron", "Cron: minute, hour, day, month, weekday", "0 3 * * *"],
        ["every", "Or every", "6h"],
        ["timezone", "Time zone", { value: zone }],
        ["jitter", "Later by chance, up to", "10m"],
        ["start", "Not before", "2026-12-01"],
        ["end", "Not after", "2027-12-01T08:00"],
        ["catch_up", "Slots that were missed", CATCH_UP, "once"],
        ["overlap", "While the run before goes on", OVERLAP, "skip"])),
      card(
        grid(kept.error,
          ["job", "Job, as JSON", {
            area: true, wide: true, required: true, rows: 8, spellcheck: "false", placeholder: '{"urls": ["https://books.example/"], "pages": 500}',
          }],
          ["from", "Or with the settings of this job", "its id"]),
        h("p.row", button("Take them", (given) => take(given, get)))),
      h("p.row", h("button.main", "Add the schedule"), button("Show the next slots", show))),
    kept.slots && h("section.card", { "aria-live": "polite" }, h("h2", "It would run"), h("p", kept.slots.words), times(kept.slots)));
  draw();
}

function parsed(job = "") {
  try { return JSON.parse(job); } catch (error) { throw flawed("job", `The job is no JSON: ${error.message}`); }
}

const isEmpty = (value) => value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);

/** Of an earlier job: its URLs are no part of what is shown, so those stay to be written. */
async function take({ from }, get) {
  if (!from) throw flawed("from", "Write the id of a job first.");
  const { spec } = await get(at("jobs", from));
  const told = Object.fromEntries(Object.entries(spec).filter(([, value]) => !isEmpty(value)));
  const urls = [`https://${spec.hosts?.[0] || "books.example"}/`];
  byId("f-job").value = JSON.stringify({ urls, ...told }, null, 2);
}
