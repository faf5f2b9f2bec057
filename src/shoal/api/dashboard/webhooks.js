// Webhooks: who is told what happens, what was sent, and how that went.

import { again, ask, may, query } from "/ui/api.js";
import { fill, h, say } from "/ui/dom.js";
import { ago, moment, number } from "/ui/format.js";
import { action, badge, choice, field, flaws, notice, table, values } from "/ui/parts.js";

const EVENTS = ["job.started", "job.finished", "job.failed", "job.cancelled", "job.drift", "items", "page.changed"];
const UNASKED = ["job.finished", "job.failed", "job.cancelled", "job.drift"];
const SHAPES = [["", "as it is"], ["slack", "Slack"], ["discord", "Discord"], ["teams", "Teams"]];
const STATES = [["", "all"], ["waiting", "waiting"], ["delivered", "delivered"], ["failed", "failed"]];
const TEST_S = 20;

export async function webhooks(root, { parts, query: asked, signal }) {
  if (parts[0] === "deliveries" && parts[1]) return delivery(root, parts[1], signal);
  const kept = { hooks: null, sent: null, refusal: null, trouble: null, secret: null, wanted: asked };
  const look = async () => {
    kept.hooks = (await ask("webhooks", { signal })).data;
    const chosen = { webhook: asked.get("webhook") || "", state: asked.get("state") || "", limit: 50 };
    kept.sent = (await ask(`webhook-deliveries${query(chosen)}`, { signal })).data;
    draw();
  };
  const draw = () => fill(root, ...shown(kept, look, draw));
  await again(3, signal, look, (error) => { kept.trouble = error; if (error) draw(); });
}

function shown(kept, look, draw) {
  const { hooks, sent, trouble, secret } = kept;
  return [
    h("div", { class: "head" }, h("h1", {}, "Webhooks")),
    trouble ? notice(trouble.message, "bad") : null,
    secret ? h("p", { class: "notice", role: "status", "data-key": "secret" },
      `The secret of ${secret.name}, shown this once: `, h("code", {}, secret.secret)) : null,
    h("section", { class: "card", "data-key": "hooks" }, hooks ? table([
      { name: "Name", of: (row) => h("a", { href: `#/webhooks${query({ webhook: row.id })}` }, row.name) },
      { name: "State", of: (row) => badge(row.state) },
      { name: "Where", kind: "value", of: (row) => row.url },
      { name: "Events", kind: "value", of: (row) => row.events.join(", ") },
      { name: "Arrived", of: (row) => ago(row.delivered_at) },
      { name: "Failed in a row", kind: "n", of: (row) => number(row.failures) },
      { name: "Why", kind: "value", of: (row) => row.reason || "–" },
      { name: "Do", of: (row) => may("submit") ? h("div", { class: "row" }, buttons(row, kept, look, draw)) : "–" },
    ], hooks, { key: (row) => row.id, caption: "Webhooks", empty: "Nobody is told anything so far." })
      : h("p", { class: "empty" }, "Loading…")),
    may("submit") ? form(kept, look, draw) : null,
    h("section", { class: "card", "data-key": "sent" },
      h("div", { class: "head" }, h("h2", {}, "Deliveries"),
        choice("state", "State", STATES, kept.wanted.get("state") || "", (event) => {
          location.hash = `#/webhooks${query({ webhook: kept.wanted.get("webhook"), state: event.target.value })}`;
        })),
      sent ? deliveries(sent, hooks, look) : null),
  ];
}

function buttons(row, kept, look, draw) {
  const path = `webhooks/${row.id}`;
  const set = (state, text) => async () => {
    await ask(path, { method: "PATCH", body: { state } });
    say(text);
    await look();
  };
  return [
    action("Test", async () => {
      const sent = await ask(`${path}/test${query({ wait: TEST_S })}`, { method: "POST" });
      const last = sent.attempts.at(-1);
      say(last ? `${row.name}: ${last.reason || `answered ${last.status}`}` : `${row.name}: on its way`);
      await look();
    }, { key: "test" }),
    row.state === "enabled" ? action("Pause", set("paused", "What happens waits until it is resumed."), { key: "stop" })
      : action("Resume", set("enabled", "What waits is sent."), { key: "go" }),
    action("New secret", async () => {
      kept.secret = await ask(`${path}/rotate`, { method: "POST" });
      draw();
    }, { key: "rotate", sure: "Make a new secret? The old one stays good for a day." }),
    action("Remove", async () => {
      await ask(path, { method: "DELETE" });
      say("Removed.");
      await look();
    }, { key: "remove", sure: `Remove ${row.name}, with what waits for it?` }),
  ];
}

function form(kept, look, draw) {
  return h("form", {
    class: "card", "data-key": "add", onsubmit: async (event) => {
      event.preventDefault();
      const place = event.currentTarget;
      const { url, name, labels, template } = values(place);
      const events = EVENTS.filter((one) => place.elements[`event-${one}`].checked);
      const body = { url, events, ...(name ? { name } : {}), ...(template ? { template } : {}) };
      if (labels) body.labels = labels.split(/[\s,]+/).filter(Boolean);
      try {
        kept.secret = await ask("webhooks", { body });
        kept.refusal = null;
        place.reset();
        await look();
      } catch (error) { kept.refusal = error; }
      draw();
    },
  },
  h("h2", {}, "Add a webhook"),
  h("div", { class: "form" },
    field("url", "URL", { required: true, placeholder: "https://example.org/hooks/shoal", wide: true }),
    field("name", "Name"),
    field("labels", "Only jobs with labels"),
    choice("template", "Shape", SHAPES, ""),
    h("fieldset", { class: "wide" }, h("legend", {}, "Tell"), EVENTS.map((one) =>
      h("label", { class: "in" }, h("input", { type: "checkbox", name: `event-${one}`, checked: UNASKED.includes(one) }), ` ${one} `))),
    h("div", { class: "row" }, h("button", { class: "main" }, "Add"))),
  flaws(kept.refusal));
}

function deliveries(sent, hooks, look) {
  const names = new Map((hooks || []).map((hook) => [hook.id, hook.name]));
  return table([
    { name: "When", of: (row) => h("a", { href: `#/webhooks/deliveries/${row.id}` }, moment(row.created_at)) },
    { name: "Webhook", of: (row) => names.get(row.webhook) || row.webhook },
    { name: "Event", of: (row) => row.type },
    { name: "State", of: (row) => badge(row.state) },
    { name: "Tries", kind: "n", of: (row) => number(row.tries) },
    { name: "Why", kind: "value", of: (row) => row.message || "–" },
    { name: "Do", of: (row) => may("submit") ? resend(row.id, look) : "–" },
  ], sent, { key: (row) => row.id, caption: "Deliveries, the newest first", empty: "Nothing was sent so far." });
}

function resend(id, look) {
  return action("Send again", async () => {
    await ask(`webhook-deliveries/${id}/resend`, { method: "POST" });
    say("It is sent once more.");
    await look();
  }, { key: "resend" });
}

async function delivery(root, id, signal) {
  let found = null, trouble = null;
  const look = async () => { found = await ask(`webhook-deliveries/${encodeURIComponent(id)}`, { signal }); draw(); };
  const draw = () => fill(root,
    h("div", { class: "head" }, h("h1", {}, id), found ? badge(found.state) : null,
      found && may("submit") ? resend(id, look) : null),
    trouble ? notice(trouble.message, "bad") : null,
    found ? h("p", {}, `${found.type}, made ${moment(found.created_at)}`,
      found.next_at ? `; tried again ${moment(found.next_at)}` : "",
      found.job ? h("span", {}, "; ", h("a", { href: `#/jobs/${found.job}` }, found.job)) : null) : null,
    h("section", { class: "card" }, found ? table([
      { name: "When", of: (row) => moment(row.at) },
      { name: "Status", kind: "n", of: (row) => row.status ? String(row.status) : "–" },
      { name: "Took", kind: "n", of: (row) => `${number(Math.round(row.elapsed_ms))} ms` },
      { name: "Why", kind: "value", of: (row) => row.reason || "–" },
      { name: "Answer", kind: "value", of: (row) => row.answer || "–" },
    ], found.attempts, { caption: "Attempts", empty: "It was not sent yet." }) : h("p", { class: "empty" }, "Loading…")));
  await again(3, signal, look, (error) => { trouble = error; if (error) draw(); });
}
