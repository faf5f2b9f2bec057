// The API as the dashboard uses it: one way to ask, one to listen, one to look again and again.

const BASE = "/api/v1";
export const session = { tenant: "", scopes: [], key: null, csrf: null };
let refused = () => {};

/** What is done when nobody is logged in. */
export function whenRefused(handler) { refused = handler; }
export const may = (scope) => session.scopes.includes(scope);

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the API answered ${status}`);
    this.status = status;
    this.flaws = problem.errors || [];
    this.after = 0;
  }
}

/** Ask the API: ask("jobs"), ask("jobs/x/pause", { method: "POST" }), ask("jobs", { body: {…} }). */
export async function ask(path, { method, body, signal } = {}) {
  const answer = await send(path, { method, body, signal });
  return answer.status === 204 ? null : answer.json();
}

export async function send(path, { method, body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const verb = method || (body === undefined ? "GET" : "POST");
  if (session.csrf && verb !== "GET") headers["X-CSRF-Token"] = session.csrf;
  const url = path.startsWith("/") ? path : `${BASE}/${path}`;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(url, { method: verb, headers, body: text, signal, credentials: "same-origin" });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  const refusal = new Refusal(answer.status, problem);
  refusal.after = Number(answer.headers.get("Retry-After")) || 0;
  if (answer.status === 401 && path !== "session") refused();
  throw refusal;
}

export async function greet() { Object.assign(session, await ask("session")); }
export async function logIn(key) { Object.assign(session, await ask("session", { body: { key } })); }

export async function logOut() {
  await ask("session", { method: "DELETE" });
  Object.assign(session, { tenant: "", scopes: [], key: null, csrf: null });
}

/** Do something now, and every so often until the signal says stop; not while nobody looks. */
export function again(seconds, signal, work, failed) {
  let timer = 0;
  const round = async () => {
    let pause = seconds;
    if (!document.hidden) {
      try {
        await work();
        failed(null);
      } catch (error) {
        if (signal.aborted) return;
        failed(error);
        pause = Math.max(seconds, Math.min(error.after || 0, 30));
      }
    }
    if (!signal.aborted) timer = setTimeout(round, pause * 1000);
  };
  const shown = () => { if (!document.hidden) { clearTimeout(timer); round(); } };
  document.addEventListener("visibilitychange", shown);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  });
  return round();
}

/** Hear of a job as it goes on. */
export function listen(job, signal, heard) {
  const source = new EventSource(`${BASE}/jobs/${job}/events`);
  for (const kind of ["counters", "state", "changed", "ended"]) {
    source.addEventListener(kind, (event) => heard(kind, JSON.parse(event.data)));
  }
  source.addEventListener("ended", () => source.close());
  signal.addEventListener("abort", () => source.close());
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
