// The API as the dashboard uses it: one way to ask, one to listen, one to look again and again.

const BASE = "/api/v1";
const NOBODY = { tenant: "", scopes: [], fleet: false, key: null, csrf: null };
export const session = { ...NOBODY };
let refused = () => {};

/** What is done when nobody is logged in. */
export function whenRefused(handler) { refused = handler; }
export const may = (scope) => session.scopes.includes(scope);

class Refusal extends Error {
  constructor(status, problem, after = 0) {
    super(problem.detail || problem.title || `the API answered ${status}`);
    this.status = status;
    this.flaws = problem.errors || [];
    this.after = Number(after) || 0;
  }
}

/** Something that is wrong with one field of a form, found here. */
export const flawed = (field, detail) => new Refusal(422, { detail, errors: [{ field, detail }] });

/** When the API was last heard, what is the matter with it, and how many views want to hear it. */
export const pulse = { heard: Date.now(), trouble: null, wanted: 0 };

/** Is this about the API, and not about what was asked of it? */
const isOutage = (error) => !error.status || error.status === 429 || error.status >= 500;

const PATIENCE_MS = 6_000, LONG_PATIENCE_MS = 45_000;

/** Ask the API: ask("jobs"), post("jobs/x/pause"), post("jobs", {…}). */
export async function ask(path, options) {
  const answer = await send(path, options);
  return answer.status === 204 ? null : answer.json();
}

export const post = (path, body, more) => ask(path, { method: "POST", body, ...more });
export const patch = (path, body) => ask(path, { method: "PATCH", body });
export const drop = (path) => ask(path, { method: "DELETE" });

export async function send(path, options = {}, again = true) {
  const { method = "GET", body, signal } = options, isChange = method !== "GET";
  const headers = { Accept: "application/json", ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (session.csrf && isChange) headers["X-CSRF-Token"] = session.csrf;
  const patience = AbortSignal.timeout(isChange ? LONG_PATIENCE_MS : PATIENCE_MS);
  let answer;
  try {
    answer = await fetch(path.startsWith("/") ? path : `${BASE}/${path}`, {
      method, headers, body: JSON.stringify(body), signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("The API does not answer.");
  }
  if (answer.ok) { pulse.heard = Date.now(); return answer; }
  const refusal = new Refusal(answer.status, await answer.json().catch(() => ({})), answer.headers.get("Retry-After"));
  if (answer.status === 401 && path !== "session") refused();
  if (answer.status === 403 && session.csrf && isChange && again && await renewed()) return send(path, options, false);
  throw refusal;
}

/** Has this browser logged in anew, in another window? */
async function renewed() {
  const { csrf } = session;
  await greet().catch(() => {});
  return session.csrf !== csrf;
}

export async function greet() { Object.assign(session, await ask("session")); }
export async function logIn(key) { Object.assign(session, await post("session", { key })); }
export async function logOut() {
  await drop("session");
  Object.assign(session, NOBODY);
}

/** Tell of each time that the window is looked at, or no longer, until the signal says stop. */
function whenLooked(signal, told) {
  document.addEventListener("visibilitychange", () => told(!document.hidden), { signal });
}

const LONGEST_PAUSE_S = 5;

/**
 * Do something now, and every so often until the signal says stop; not while nobody looks.
 * `failed` hears of what the view can say; of an API that is away the frame tells.
 */
export function again(seconds, signal, work, failed) {
  if (signal.aborted) return Promise.resolve();
  let timer = 0, busy = false;
  const round = async () => {
    clearTimeout(timer);
    if (busy || signal.aborted) return;
    busy = true;
    let pause = seconds;
    if (!document.hidden) {
      try {
        await work();
        pulse.trouble = null;
        failed(null);
      } catch (error) {
        if (signal.aborted) return;
        if (isOutage(error)) pulse.trouble = error;
        else failed(error);
        pause = Math.max(seconds, Math.min(error.after || 0, LONGEST_PAUSE_S));
      }
    }
    busy = false;
    if (!signal.aborted) timer = setTimeout(round, pause * 1000);
  };
  whenLooked(signal, (seen) => seen && round());
  pulse.wanted += 1;
  signal.addEventListener("abort", () => {
    pulse.wanted -= 1;
    pulse.trouble = null;
    clearTimeout(timer);
  });
  return round();
}

const AFRESH_MS = 3_000;

/**
 * Hear of a job as it goes on. A window that nobody looks at does not listen: browsers have few connections for one host.
 * Returns { wake }, for when the job goes on after its end.
 */
export function listen(job, signal, heard) {
  let source = null, timer = 0;
  const close = () => { clearTimeout(timer); source?.close(); source = null; };
  const open = () => {
    clearTimeout(timer);
    if (source || document.hidden || signal.aborted) return;
    source = new EventSource(`${BASE}/jobs/${job}/events`);
    for (const kind of ["counters", "state", "changed", "ended"]) {
      source.addEventListener(kind, (event) => {
        pulse.heard = Date.now();
        heard(kind, JSON.parse(event.data));
      });
    }
    source.addEventListener("ended", close);
    source.onerror = () => { // a stream that was refused does not come back by itself
      if (source?.readyState === EventSource.CLOSED) { close(); timer = setTimeout(open, AFRESH_MS); }
    };
  };
  whenLooked(signal, (seen) => (seen ? open() : close()));
  signal.addEventListener("abort", close);
  open();
  return { wake: open, get open() { return source?.readyState === EventSource.OPEN; } };
}

/** A text that no other request has. */
export function unique() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** `?a=1`: what is empty is left out. */
export function query(values = {}) {
  const given = Object.entries(values).filter(([, value]) => value != null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** A path, of the API or of a view, with whatever signs in its parts. */
export const at = (...parts) => parts.map(encodeURIComponent).join("/");

/** Go to a view. */
export function go(path, values) { location.hash = `#/${path}${query(values)}`; }
