// A new job: what to fetch, how fast, what to take; and what would come of one page.

import { ask, flawed, may, unique } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { choice, field, flawOf, flaws, focusFlaw, notice, once, plain, submitted, values } from "/ui/parts.js";
import { itemTable } from "/ui/results.js";

const PATIENCE_S = 20;
const pause = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });

export async function submit(root, { signal }) {
  const kept = { rules: [{ name: "", rule: "" }], refusal: null, preview: null, doubt: null, token: unique() };
  const draw = () => fill(root, h("div", { class: "head" }, h("h1", {}, "New job")), form(kept, draw, signal), preview(kept));
  draw();
}

function form(kept, draw, signal) {
  const refuse = (error) => { kept.refusal = located(error, kept.rules); draw(); };
  const send = async (form) => {
    const made = await ask("jobs", { body: spec(form, kept), signal, headers: { "Idempotency-Key": kept.token } });
    kept.token = unique();
    say(`${made.accepted} URLs were accepted: job ${made.id}.`);
    if (may("read")) location.hash = `#/jobs/${made.id}`;
    else refuse(null);
  };
  const { refusal } = kept, [marks, words] = flawOf(refusal, "urls");
  return h("form", { novalidate: true, onsubmit: submitted(send, refuse) },
    flaws(refusal),
    h("section", { class: "card" },
      h("div", { class: "form" },
        h("div", { class: "wide" }, h("label", { for: "f-urls" }, "URLs, one a line"),
          h("textarea", { id: "f-urls", name: "urls", required: true, placeholder: "https://books.example/", spellcheck: "false", ...marks }), words),
        field("name", "Name", { placeholder: "for people" }, refusal),
        choice("follow", "Links", [["yes", "followed"], ["no", "not followed"]], "yes"),
        field("depth", "Links away at most", { inputmode: "numeric" }, refusal),
        field("pages", "Pages at most", { inputmode: "numeric" }, refusal),
        field("rate", "Requests a second to one host", { placeholder: "robots.txt, or 4" }, refusal),
        field("parallel", "At once to one host", { placeholder: "2" }, refusal),
        choice("engine", "Fetched by", [["http", "HTTP"], ["auto", "HTTP, or a browser"], ["browser", "a browser"]], "http"),
        choice("lane", "Lane", [["batch", "batch"], ["high", "high"], ["slow", "slow"]], "batch"))),
    h("section", { class: "card" },
      h("h2", {}, "Fields of an item"),
      h("p", { class: "soft" }, "A name, and a CSS selector, XPath or json:path: ", h("code", {}, "title"), " = ", h("code", {}, "h1"),
        ", ", h("code", {}, "price:money"), " = ", h("code", {}, ".price"), ", ", h("code", {}, "tags[]"), " = ", h("code", {}, ".tag"), "."),
      field("each", "One item for each (empty: one item a page)", { placeholder: ".card" }, refusal),
      kept.rules.map((one, index) => rule(one, index, refusal)),
      h("p", { class: "row" },
        h("button", { type: "button", onclick: () => { kept.rules.push({ name: "", rule: "" }); draw(); } }, "Another field"),
        h("button", { type: "button", onclick: (event) => once(event.currentTarget, () => look(kept, refuse, signal)) }, "Preview on one page"))),
    h("p", {}, h("button", { class: "main" }, "Submit the job")));
}

function rule(one, index, refusal) {
  const name = `rule-${index}`, [marks, words] = flawOf(refusal, name);
  return h("div", { "data-key": name }, h("div", { class: "row" },
    h("input", { "aria-label": `Name of field ${index + 1}`, placeholder: "title", value: one.name, oninput: (event) => { one.name = event.target.value.trim(); } }),
    h("input", { id: `f-${name}`, "aria-label": `Where field ${index + 1} is found`, placeholder: "h1", size: 40, value: one.rule, ...marks, oninput: (event) => { one.rule = event.target.value.trim(); } })), words);
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

function spec(form, kept) {
  const { urls = "", follow, each, ...rest } = values(form);
  const wanted = Object.fromEntries(Object.entries(rest).map(([name, text]) => [name, name === "name" ? text : plain(text)]));
  return { ...wanted, ...taken(each, kept), follow: follow === "yes", urls: urls.split("\n").map((line) => line.trim()).filter(Boolean) };
}

function taken(each, kept) {
  const half = kept.rules.findIndex((one) => !one.name !== !one.rule);
  if (half >= 0) throw flawed(`rule-${half}`, "A field needs a name and a rule: this has only one of them.");
  const rules = kept.rules.filter((one) => one.name).map((one) => [one.name, one.rule]);
  return { ...(rules.length ? { fields: Object.fromEntries(rules) } : {}), ...(each ? { each } : {}) };
}

/** The first URL is fetched once; after that its stored page is read again as often as the fields change. */
async function look(kept, refuse, signal) {
  const form = document.querySelector("form:has(#f-urls)"), given = values(form);
  const url = (given.urls || "").split("\n")[0].trim();
  kept.doubt = null;
  try {
    if (!url) throw flawed("urls", "Write a URL first: the preview is of the first one.");
    const wanted = taken(given.each, kept);
    if (kept.page?.url === url && wanted.fields && may("read")) await read(kept, wanted, signal);
    else await get(kept, url, wanted, signal);
    refuse(null);
  } catch (error) {
    if (signal.aborted) return;
    for (const flaw of error.flaws || []) if (flaw.field === "url") flaw.field = "urls";
    refuse(error);
    focusFlaw(form);
  }
}

async function get(kept, url, wanted, signal) {
  kept.page = null;
  const found = await ask(`scrape?wait=${PATIENCE_S}`, { body: { url, name: "preview", ...wanted }, signal });
  kept.preview = found.items.map((data) => ({ data }));
  if (found.page) kept.page = { url, job: found.id };
  else kept.doubt = found.error ? `${found.error.reason}: ${found.error.detail}` : "The page has not come yet: is there a worker? Try again.";
}

async function read(kept, wanted, signal) {
  const version = `p${Date.now()}`;
  const path = `jobs/${kept.page.job}`;
  await ask(`${path}/extractions`, { body: { spec: wanted, version }, signal });
  for (let tries = 0; tries < PATIENCE_S * 4; tries += 1) {
    const made = await ask(`${path}/extractions/${version}`, { signal });
    if (made.state === "failed") throw new Error(made.error);
    if (made.state === "done") {
      kept.preview = (await ask(`${path}/items?version=${version}&limit=50`, { signal })).data.map(({ data }) => ({ data }));
      return;
    }
    await pause(0.25);
  }
  kept.doubt = "No worker has read the page so far.";
}

function preview(kept) {
  if (!kept.preview && !kept.doubt) return null;
  return h("section", { class: "card", "aria-live": "polite" }, h("h2", {}, "Preview"),
    kept.doubt ? notice(kept.doubt) : null,
    kept.preview ? itemTable(kept.preview) : null,
    kept.page && may("read") ? h("p", {}, h("a", { href: `#/jobs/${kept.page.job}/pages` }, "The stored page")) : null);
}
