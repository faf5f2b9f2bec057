// Webhooks: who is told what happens, what was sent, and how that went.

import { at, drop, go, may, patch, post, query } from "/ui/api.js";
import { h, say } from "/ui/dom.js";
import { moment, ms } from "/ui/format.js";
import { action, badge, beside, card, choice, code, form, grid, head, link, live, notice, table, values } from "/ui/parts.js";

const EVENTS = ["job.started", "job.finished", "job.failed", "job.cancelled", "job.drift", "items", "page.changed"];
const UNASKED = ["job.finished", "job.failed", "job.cancelled", "job.drift"];
const SHAPES = [["", "as it is"], ["slack", "Slack"], ["discord", "Discord"], ["teams", "Teams"]];
const STATES = [["", "all"], "waiting", "delivered", "failed"];
const TEST_S = 20;

export function webhooks(root, { parts: [kind, id], asked, signal, get }) {
  if (kind === "deliveries" && id) return delivery(root, id, signal, get);
  const webhook = asked("webhook"), state = asked("state");
  return live(root, {
    signal, every: 3,
    load: async () => ({
      hooks: (await get("webhooks")).data,
      sent: (await get("webhook-deliveries", { webhook, state, limit: 50 })).data,
    }),
    head: () => head("Webhooks"),
    body: (view) => [
      view.secret && notice([`The secret of ${view.secret.name}, shown this once: `, code(view.secret.secret)]),
      h("section.card", { "data-key": "hooks" }, table(hookColumns(view), view.found.hooks, {
        caption: "Webhooks", empty: "Nobody is told anything so far.",
      })),
      may("submit") && adding(view),
      h("section.card", { "data-key": "sent" },
        h("div.head", h("h2", "Deliveries"), choice("state", "State", STATES, state, (chosen) => go("webhooks", { webhook, state: chosen }))),
        table(sentColumns(view), view.found.sent, { caption: "Deliveries, the newest first", empty: "Nothing was sent so far." })),
    ],
  });
}

const hookColumns = (view) => [
  ["Name", (row) => link(row.name, "webhooks", { webhook: row.id })],
  ["State", "state", "badge"],
  ["Where", "url", "value"],
  ["Events", (row) => row.events.join(", "), "value"],
  ["Arrived", "delivered_at", "ago"],
  ["Failed in a row", "failures", "n"],
  ["Why", "reason", "value"],
  ["Do", (row) => may("submit") ? beside(buttons(row, view)) : "–"],
];

function buttons(row, view) {
  const path = `webhooks/${row.id}`, then = view.look;
  const set = (text, state, said) => action(text, () => patch(path, { state }), { said, then, key: "turn" });
  return [
    action("Test", () => post(`${path}/test${query({ wait: TEST_S })}`), {
      then: async ({ attempts }) => {
        const last = attempts.at(-1);
        say(`${row.name}: ${last ? last.reason || `answered ${last.status}` : "on its way"}`);
        await then();
      },
    }),
    row.state === "enabled" ? set("Pause", "paused", "What happens waits until it is resumed.")
      : set("Resume", "enabled", "What waits is sent."),
    action("New secret", () => post(`${path}/rotate`), {
      then: (secret) => { view.secret = secret; view.draw(); }, sure: "Make a new secret? The old one stays good for a day.",
    }),
    action("Remove", () => drop(path), { said: "Removed.", then, sure: `Remove ${row.name}, with what waits for it?` }),
  ];
}

function adding(view) {
  const add = async (place) => {
    const { url, name, template, labels = "" } = values(place);
    const events = EVENTS.filter((one) => place.elements[`event-${one}`].checked);
    view.secret = await post("webhooks", { url, name, template, events, labels: labels.split(/[\s,]+/).filter(Boolean) });
    place.reset();
    view.refuse(null);
    await view.look();
  };
  return form({ class: "card", "data-key": "add", heading: h("h2", "Add a webhook"), work: add, refuse: view.refuse, error: view.refusal }, grid(view.refusal,
    ["url", "URL", { required: true, placeholder: "https://example.org/hooks/shoal", wide: true }],
    ["name", "Name"],
    ["labels", "Only jobs with labels"],
    ["template", "Shape", SHAPES, ""],
    h("fieldset.wide", h("legend", "Tell"), EVENTS.map((one) =>
      h("label.in", h("input", { type: "checkbox", name: `event-${one}`, checked: UNASKED.includes(one) }), ` ${one} `))),
    beside(h("button.main", "Add"))));
}

function sentColumns(view) {
  const names = new Map(view.found.hooks.map((hook) => [hook.id, hook.name]));
  return [
    ["When", (row) => link(moment(row.created_at), `webhooks/deliveries/${row.id}`)],
    ["Webhook", (row) => names.get(row.webhook) || row.webhook],
    ["Event", "type"],
    ["State", "state", "badge"],
    ["Tries", "tries", "n"],
    ["Why", "message", "value"],
    ["Do", (row) => resend(row.id, view) || "–"],
  ];
}

const resend = (id, view) => may("submit") && action("Send again", () => post(at("webhook-deliveries", id, "resend")), {
  said: "It is sent once more.", then: view.look,
});

const ATTEMPTS = [
  ["When", "at", "at"],
  ["Status", (row) => String(row.status || "–"), "n"],
  ["Took", (row) => ms(Math.round(row.elapsed_ms)), "n"],
  ["Why", "reason", "value"],
  ["Answer", "answer", "value"],
];

const delivery = (root, id, signal, get) => live(root, {
  signal, every: 3,
  load: () => get(at("webhook-deliveries", id)),
  head: (view) => head(id, view.found && [badge(view.found.state), resend(id, view)]),
  body: ({ found }) => [
    h("p", `${found.type}, made ${moment(found.created_at)}`,
      found.next_at && `; tried again ${moment(found.next_at)}`,
      found.job && ["; ", link(found.job, `jobs/${found.job}`)]),
    card(table(ATTEMPTS, found.attempts, { caption: "Attempts", empty: "It was not sent yet." })),
  ],
});
