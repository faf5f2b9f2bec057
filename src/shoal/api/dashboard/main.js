// Where a browser begins: who is there, which view they want, and the frame around it. A new view is a line of VIEWS.

import { ask, flawed, go, greet, logIn, logOut, may, pulse, query, session, whenRefused } from "/ui/api.js";
import { byId, fill, h, say } from "/ui/dom.js";
import { span } from "/ui/format.js";
import { hosts } from "/ui/hosts.js";
import { job } from "/ui/job.js";
import { jobs } from "/ui/jobs.js";
import { overview } from "/ui/overview.js";
import { button, code, failure, lone, notice, values } from "/ui/parts.js";
import { schedules } from "/ui/schedules.js";
import { submit } from "/ui/submit.js";
import { webhooks } from "/ui/webhooks.js";
import { workers } from "/ui/workers.js";

const VIEWS = [
  { path: "", name: "Overview", view: overview, scope: "read", fleet: true, key: "o" },
  { path: "jobs", name: "Jobs", view: jobs, inner: job, scope: "read", key: "j" },
  { path: "schedules", name: "Schedules", view: schedules, scope: "read", key: "s" },
  { path: "hosts", name: "Hosts", view: hosts, scope: "admin", key: "h" },
  { path: "workers", name: "Workers", view: workers, scope: "admin", key: "w" },
  { path: "webhooks", name: "Webhooks", view: webhooks, scope: "read", key: "b" },
  { path: "new", name: "New job", view: submit, scope: "submit", key: "n" },
];
const sees = (one) => may(one.scope) && (!one.fleet || session.fleet);
const main = byId("main");
let leave = new AbortController();

/** `#/jobs/x/items?version=v2` as { parts, asked }, in which asked("version") is "v2". */
function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), asked: (name) => new URLSearchParams(search).get(name) ?? "" };
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function frame(current) {
  fill(byId("top"),
    h("a.brand", { href: "#/" }, h("img", { src: "/ui/shoal.svg", alt: "", width: 26, height: 26 }), "Shoal"),
    h("nav", { "aria-label": "Views" }, VIEWS.filter(sees).map((one) => h("a", {
      href: `#/${one.path}`, "aria-current": one.path === current && "page", "aria-keyshortcuts": `g ${one.key}`,
    }, one.name))),
    h("div.who",
      h("a", { href: "/openapi/swagger" }, "API"),
      button("◐", theme, { "aria-label": "Light or dark" }),
      session.key && h("span", `${session.tenant} · ${session.key}`),
      session.csrf && button("Log out", out)));
}

const page = document.documentElement.dataset;

function theme() {
  const isDark = page.theme ? page.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  page.theme = localStorage.theme = isDark ? "light" : "dark";
}

async function out() {
  try { await logOut(); } catch (error) { say(error.message); return; }
  leave.abort();
  main.replaceChildren();
  login();
}

const others = new BroadcastChannel("shoal"); // this browser's other windows
let tenant = "";

/** Somebody is logged in, here or in another window. The view stays, and what was typed there, unless it is another tenant's. */
function arrived() {
  byId("login")?.close();
  if (session.tenant === tenant && main.hasChildNodes()) frame(place().parts[0] ?? "");
  else show();
}

others.onmessage = () => greet().then(arrived, () => {});

/** Above the view: what was typed there is not lost with a session. */
function login() {
  if (byId("login")) return;
  const enter = async (form) => {
    try { await logIn(values(form).key ?? ""); } catch (refusal) {
      throw refusal.status === 401 ? flawed("key", refusal.message) : refusal;
    }
    others.postMessage("in");
    arrived();
  };
  const dialog = lone({ id: "login", "aria-label": "Log in" }, h("h1", "Log in"), enter,
    ["key", "API key", { type: "password", autocomplete: "current-password", required: true }],
    h("p", h("button.main", "Log in")),
    h("p.soft", "Keys are made with ", code("shoal keys create"), "."));
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  byId("f-key").focus();
}

const AFRESH_MS = 3_000, STALE_MS = 7_000;
let greeted = false, looked = Date.now();

/** Says that what is shown is old, and why, for as long as that is so. */
function watch() {
  const bar = byId("stale"), { trouble, heard, wanted } = pulse;
  if (document.hidden) looked = Date.now();
  const silent = Date.now() - Math.max(heard, looked) > STALE_MS;
  const old = wanted > 0 && !document.hidden && !byId("login") && (trouble || silent);
  main.toggleAttribute("data-stale", Boolean(old));
  fill(bar, old && h("p", { role: "alert" }, h("strong", "What you see is not new. "), trouble?.message || "The API does not answer.",
    " It is asked again and again.",
    h("span", { "aria-hidden": "true" }, ` Last heard ${span(Math.round((Date.now() - heard) / 1000))} ago.`)));
}

setInterval(watch, 500);

async function show(told = null) {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const root = h("div", failure(told));
  main.replaceChildren(root);
  try {
    if (!greeted) { await greet(); greeted = true; }
    tenant = session.tenant;
    await open(root, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) { greeted = true; login(); return; }
    fill(root, failure(error));
    if (!error.status || error.status >= 429) setTimeout(() => signal.aborted || show(error), AFRESH_MS);
  }
}

async function open(root, signal) {
  const { parts: [first = "", ...parts], asked } = place();
  if (!session.scopes.length) { login(); return; } // logged out: where they were going is where they begin
  if (!first && !sees(VIEWS[0])) { location.replace(`#/${VIEWS.find(sees)?.path ?? "none"}`); return; }
  const found = VIEWS.find((one) => one.path === first);
  frame(first);
  document.title = found ? `${found.name} · Shoal` : "Shoal";
  if (!found || !may(found.scope)) {
    fill(root, notice(found ? `This key may not see that: it needs the scope ${found.scope}.` : "There is no such view."));
    return;
  }
  const view = (parts.length && found.inner) || found.view;
  await view(root, { parts, asked, signal, get: (path, values) => ask(`${path}${query(values)}`, { signal }) });
}

let before = "";
window.addEventListener("hashchange", () => {
  if (location.hash === "#main") { history.replaceState(null, "", before || "#/"); main.focus(); return; }
  const moved = before.split("?")[0] !== location.hash.split("?")[0];
  before = location.hash;
  show();
  if (moved) { main.focus({ preventScroll: true }); window.scrollTo(0, 0); }
});

let waiting = false;
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "g") { waiting = true; setTimeout(() => { waiting = false; }, 1200); return; }
  const found = waiting && VIEWS.find((one) => one.key === event.key && sees(one));
  waiting = false;
  if (found) go(found.path);
});

whenRefused(login);
if (localStorage.theme) page.theme = localStorage.theme;
before = location.hash;
show();
