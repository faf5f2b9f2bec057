// Where a browser begins: who is there, which view they want, and the frame around it.

import { greet, logIn, logOut, may, session, whenRefused } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { flaws, notice } from "/ui/parts.js";
import { hosts } from "/ui/hosts.js";
import { job } from "/ui/job.js";
import { jobs } from "/ui/jobs.js";
import { overview } from "/ui/overview.js";
import { submit } from "/ui/submit.js";
import { workers } from "/ui/workers.js";

const VIEWS = [
  { path: "", name: "Overview", view: overview, scope: "read", key: "o" },
  { path: "jobs", name: "Jobs", view: jobs, scope: "read", key: "j" },
  { path: "hosts", name: "Hosts", view: hosts, scope: "admin", key: "h" },
  { path: "workers", name: "Workers", view: workers, scope: "admin", key: "w" },
  { path: "new", name: "New job", view: submit, scope: "submit", key: "n" },
];
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
  const open = VIEWS.filter((one) => may(one.scope));
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

/** Above the view, which stays as it is: what was typed there is not lost with a session. */
function login() {
  if (document.getElementById("login")) return;
  const before = session.key;
  const draw = (error) => fill(dialog, h("form", {
    class: "login",
    onsubmit: async (event) => {
      event.preventDefault();
      const given = new FormData(event.currentTarget).get("key");
      try { await logIn(String(given)); } catch (refusal) { draw(refusal); return; }
      dialog.close();
      dialog.remove();
      if (session.key === before && main.hasChildNodes()) frame(place().parts[0] ?? "");
      else show();
    },
  },
  h("h1", {}, "Log in"),
  h("label", { for: "key" }, "API key"),
  h("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true }),
  flaws(error),
  h("p", {}, h("button", { class: "main" }, "Log in")),
  h("p", { class: "soft" }, "Keys are made with ", h("code", {}, "shoal keys create"), ".")));
  const dialog = h("dialog", { id: "login", "aria-label": "Log in" });
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  draw(null);
  dialog.showModal();
  document.getElementById("key").focus();
}

const AFRESH_MS = 3_000;
let greeted = false;

async function show() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const root = h("div", {});
  main.replaceChildren(root);
  try {
    if (!greeted) { await greet(); greeted = true; }
    await open(root, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) { greeted = true; login(); return; }
    fill(root, notice(error.message, "bad"));
    if (!error.status || error.status >= 429) setTimeout(() => signal.aborted || show(), AFRESH_MS);
  }
}

async function open(root, signal) {
  const { parts, query } = place();
  const [first = ""] = parts;
  if (!first && !may("read")) { location.hash = `#/${VIEWS.find((one) => may(one.scope))?.path ?? "none"}`; return; }
  const found = VIEWS.find((one) => one.path === first);
  frame(first);
  document.title = found ? `${found.name} · Shoal` : "Shoal";
  if (!found || !may(found.scope)) {
    fill(root, notice(found ? `This key may not see that: it needs the scope ${found.scope}.` : "There is no such view."));
    return;
  }
  const view = first === "jobs" && parts[1] ? job : found.view;
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
  const found = waiting && VIEWS.find((one) => one.key === event.key && may(one.scope));
  waiting = false;
  if (found) location.hash = `#/${found.path}`;
});

whenRefused(login);
const saved = localStorage.getItem("theme");
if (saved) document.documentElement.dataset.theme = saved;
before = location.hash;
show();
