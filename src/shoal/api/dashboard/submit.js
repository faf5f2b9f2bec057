// A new job: what to fetch, how fast, what to take; and what would come of one page.

import { flawed, go, may, post, unique } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { button, card, code, field, flawOf, focusFlaw, form, grid, head, link, notice, once, plainly, values } from "/ui/parts.js";
import { itemTable } from "/ui/results.js";

const PATIENCE_S = 20;
const ENGINES = [["http", "HTTP"], ["auto", "HTTP, or a browser"], ["browser", "a browser"]];
const pause = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });
const lines = (text = "") => text.split("\n").map((line) => line.trim()).filter(Boolean);

export function submit(root, { signal, get }) {
  const kept = { rules: [{ name: "", rule: "" }], error: null, preview: null, doubt: null, token: unique() };
  const draw = () => fill(root, head("New job"), written(kept, draw, signal, get), preview(kept));
  draw();
}

function written(kept, draw, signal, get) {
  const { error, rules } = kept;
  const refuse = (refusal) => { kept.error = located(refusal, rules); draw(); };
  const work = async (place) => {
    const made = await post("jobs", spec(place, kept), { signal, headers: { "Idempotency-Key": kept.token } });
    kept.token = unique();
    say(`${made.accepted} URLs were accepted: job ${made.id}.`);
    if (may("read")) go(`jobs/${made.id}`);
    else refuse(null);
  };
  return form({ work, refuse, error },
    card(grid(error,
      ["urls", "URLs, one a line", { area: true, wide: true, required: true, placeholder: "https://books.example/", spellcheck: "false" }],
      ["name", "Name", "for people"],
      ["follow", "Links", [["yes", "followed"], ["no", "not followed"]], "yes"],
      ["depth", "Links away at most", { inputmode: "numeric" }],
      ["pages", "Pages at most", { inputmode: "numeric" }],
      ["rate", "Requests a second to one host", "robots.txt, or 4"],
      ["parallel", "At once to one host", "2"],
      ["engine", "Fetched by", ENGINES, "http"],
      ["lane", "Lane", ["batch", "high", "slow"], "batch"])),
    card("Fields of an item",
      h("p.soft", "A name, and a CSS selector, XPath or json:path: ", code("title"), " = ", code("h1"),
        ", ", code("price:money"), " = ", code(".price"), ", ", code("tags[]"), " = ", code(".tag"), "."),
      field("each", "One item for each (empty: one item a page)", ".card", error),
      rules.map((one, index) => rule(one, index, error)),
      h("p.row",
        button("Another field", () => { rules.push({ name: "", rule: "" }); draw(); }),
        button("Preview on one page", (event) => once(event.currentTarget, () => look(kept, refuse, signal, get))))),
    h("p", h("button.main", "Submit the job")));
}

function rule(one, index, error) {
  const id = `rule-${index}`, [marks, words] = flawOf(error, id);
  const input = (name, label, more) =>
    h("input", { "aria-label": label, value: one[name], ...more, oninput: (event) => { one[name] = event.target.value.trim(); } });
  return h("div", { "data-key": id }, h("div.row",
    input("name", `Name of field ${index + 1}`, { placeholder: "title" }),
    input("rule", `Where field ${index + 1} is found`, { id: `f-${id}`, placeholder: "h1", size: 40, ...marks })), words);
}

/** What is wrong with `fields.title` stands where title is written. */
function located(error, rules) {
  for (const flaw of error?.flaws || []) {
    if (!/^fields\b/.test(flaw.field)) continue;
    const inner = flaw.field.slice("fields.".length);
    const at = rules.findIndex(({ name }) => name && (inner === name || inner.startsWith(`${name}.`) || name.startsWith(`${inner}:`)));
    if (inner) flaw.detail = `${inner}: ${flaw.detail}`;
    flaw.field = `rule-${Math.max(0, at)}`;
  }
  return error;
}

function spec(place, kept) {
  const { urls, follow, each, ...rest } = values(place);
  return { ...plainly(rest, "name"), ...taken(each, kept), follow: follow === "yes", urls: lines(urls) };
}

function taken(each, { rules }) {
  const half = rules.findIndex((one) => !one.name !== !one.rule);
  if (half >= 0) throw flawed(`rule-${half}`, "A field needs a name and a rule: this has only one of them.");
  const whole = rules.filter((one) => one.name).map((one) => [one.name, one.rule]);
  return { each, fields: whole.length ? Object.fromEntries(whole) : undefined };
}

/** The first URL is fetched once; after that its stored page is read again as often as the fields change. */
async function look(kept, refuse, signal, get) {
  const place = document.querySelector("form:has(#f-urls)"), given = values(place), [url] = lines(given.urls);
  kept.doubt = null;
  try {
    if (!url) throw flawed("urls", "Write a URL first: the preview is of the first one.");
    const wanted = taken(given.each, kept);
    if (kept.page?.url === url && wanted.fields && may("read")) await read(kept, wanted, signal, get);
    else await fetched(kept, url, wanted, signal);
    refuse(null);
  } catch (error) {
    if (signal.aborted) return;
    for (const flaw of error.flaws || []) if (flaw.field === "url") flaw.field = "urls";
    refuse(error);
    focusFlaw(place);
  }
}

async function fetched(kept, url, wanted, signal) {
  kept.page = null;
  const found = await post(`scrape?wait=${PATIENCE_S}`, { url, name: "preview", ...wanted }, { signal });
  kept.preview = found.items.map((data) => ({ data }));
  if (found.page) kept.page = { url, job: found.id };
  else kept.doubt = found.error ? `${found.error.reason}: ${found.error.detail}` : "The page has not come yet: is there a worker? Try again.";
}

async function read(kept, wanted, signal, get) {
  const version = `p${Date.now()}`, path = `jobs/${kept.page.job}`;
  await post(`${path}/extractions`, { spec: wanted, version }, { signal });
  for (let tries = 0; tries < PATIENCE_S * 4; tries += 1) {
    const made = await get(`${path}/extractions/${version}`);
    if (made.state === "failed") throw new Error(made.error);
    if (made.state === "done") {
      kept.preview = (await get(`${path}/items`, { version, limit: 50 })).data.map(({ data }) => ({ data }));
      return;
    }
    await pause(0.25);
  }
  kept.doubt = "No worker has read the page so far.";
}

function preview({ preview: rows, doubt, page }) {
  if (!rows && !doubt) return null;
  return h("section.card", { "aria-live": "polite" }, h("h2", "Preview"),
    notice(doubt),
    rows && itemTable(rows),
    page && may("read") && h("p", link("The stored page", `jobs/${page.job}/pages`)));
}
