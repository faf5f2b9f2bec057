// Where a browser begins: who is there, which view they want, and the frame around it. A new view is a line of VIEWS.

import { flawed, greet, logIn, logOut, may, pulse, session, whenRefused } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { span } from "/ui/format.js";
import { field, flaws, notice, submitted } from "/ui/parts.js";
import { hosts } from "/ui/hosts.js";
import { job } from "/ui/job.js";
import { jobs } from "/ui/jobs.js";
import { overview } from "/ui/overview.js";
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
const main = document.getElementById("main");
let leave = new AbortController();

/** `#/jobs/x/items?version=v2` as { parts, query }. */
function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function frame(current) {
  const open = VIEWS.filter(sees);
  fill(document.getElementById("top"),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/ui/shoal.svg", alt: "", width: 26, height: 26 }), "Shoal"),
    h("nav", { "aria-label": "Views" }, open.map((one) => h("a", {
      href: `#/${one.path}`, "aria-current": one.path === current ? "page" : null, "aria-keyshortcuts": `g ${one.key}`,
    }, one.name))),
    h("div", { class: "who" },
      h("a", { href: "/openapi/swagger" }, "API"),
      h("button", { type: "button", onclick: theme, "aria-label": "Light or dark" }, "◐"),
      session.key ? h("span", {}, `${session.tenant} · ${session.key}`) : null,
      session.csrf ? h("button", { type: "button", onclick: out }, "Log out") : null));
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
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
  const dialog = document.getElementById("login");
  dialog?.close();
  dialog?.remove();
  if (session.tenant === tenant && main.hasChildNodes()) frame(place().parts[0] ?? "");
  else show();
}

others.onmessage = () => greet().then(arrived, () => {});

/** Above the view: what was typed there is not lost with a session. */
function login() {
  if (document.getElementById("login")) return;
  const enter = async (form) => {
    try { await logIn(String(new FormData(form).get("key"))); } catch (refusal) {
      throw refusal.status === 401 ? flawed("key", refusal.message) : refusal;
    }
    others.postMessage("in");
    arrived();
  };
  const draw = (error) => fill(dialog, h("form", { class: "login", novalidate: true, onsubmit: submitted(enter, draw) },
    h("h1", {}, "Log in"),
    error?.flaws?.length ? null : flaws(error),
    field("key", "API key", { type: "password", autocomplete: "current-password", required: true, alone: true }, error),
    h("p", {}, h("button", { class: "main" }, "Log in")),
    h("p", { class: "soft" }, "Keys are made with ", h("code", {}, "shoal keys create"), ".")));
  const dialog = h("dialog", { id: "login", "aria-label": "Log in" });
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  draw(null);
  document.body.append(dialog);
  dialog.showModal();
  document.getElementById("f-key").focus();
}

const AFRESH_MS = 3_000, STALE_MS = 7_000;
let greeted = false, looked = Date.now();

/** Says that what is shown is old, and why, for as long as that is so. */
function watch() {
  const bar = document.getElementById("stale"), { trouble, heard, wanted } = pulse;
  if (document.hidden) looked = Date.now();
  const silent = Date.now() - Math.max(heard, looked) > STALE_MS;
  const old = wanted > 0 && !document.hidden && !document.getElementById("login") && (trouble || silent);
  main.toggleAttribute("data-stale", Boolean(old));
  fill(bar, old ? h("p", { role: "alert" }, h("strong", {}, "What you see is not new. "), trouble?.message || "The API does not answer.",
    " It is asked again and again.",
    h("span", { "aria-hidden": "true" }, ` Last heard ${span(Math.round((Date.now() - heard) / 1000))} ago.`)) : null);
}

setInterval(watch, 500);

async function show(told = "") {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const root = h("div", {}, told ? notice(told, "bad") : null);
  main.replaceChildren(root);
  try {
    if (!greeted) { await greet(); greeted = true; }
    tenant = session.tenant;
    await open(root, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) { greeted = true; login(); return; }
    fill(root, notice(error.message, "bad"));
    if (!error.status || error.status >= 429) setTimeout(() => signal.aborted || show(error.message), AFRESH_MS);
  }
}

async function open(root, signal) {
  const { parts, query } = place();
  const [first = ""] = parts;
  if (!session.scopes.length) { login(); return; } // logged out: where they were going is where they begin
  if (!first && !sees(VIEWS[0])) { location.replace(`#/${VIEWS.find(sees)?.path ?? "none"}`); return; }
  const found = VIEWS.find((one) => one.path === first);
  frame(first);
  document.title = found ? `${found.name} · Shoal` : "Shoal";
  if (!found || !may(found.scope)) {
    fill(root, notice(found ? `This key may not see that: it needs the scope ${found.scope}.` : "There is no such view."));
    return;
  }
  const view = (parts[1] && found.inner) || found.view;
  await view(root, { parts: parts.slice(1), query, signal });
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
  if (found) location.hash = `#/${found.path}`;
});

whenRefused(login);
const saved = localStorage.getItem("theme");
if (saved) document.documentElement.dataset.theme = saved;
before = location.hash;
show();
