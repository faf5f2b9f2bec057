// Why a URL was fetched, or why not: each step with its time.

import { ask, query } from "/ui/api.js";
import { fill, h } from "/ui/dom.js";
import { moment } from "/ui/format.js";
import { badge, field, flaws } from "/ui/parts.js";

export async function explain(body, { id, query: asked, signal }) {
  const url = asked.get("url") || "";
  let found = null, refusal = null;
  if (url) {
    try { found = await ask(`jobs/${id}/explain${query({ url })}`, { signal }); } catch (error) { refusal = error; }
  }
  fill(body, h("form", {
    class: "card", onsubmit: (event) => {
      event.preventDefault();
      const given = new FormData(event.currentTarget).get("url");
      location.hash = `#/jobs/${id}/explain${query({ url: String(given).trim() })}`;
    },
  },
  flaws(refusal),
  h("div", { class: "row end" },
    field("url", "URL, as it stands on a page or in a list", { value: url, size: 60, required: true, placeholder: "https://…" }, refusal),
    h("button", { class: "main" }, "Explain"))),
  found ? h("section", { class: "card" }, h("h2", {}, badge(found.verdict), ` ${found.summary}`),
    h("p", { class: "mono" }, found.url),
    found.certain ? null : h("p", { class: "soft" }, "What rules leave out is not kept one by one: this is worked out."),
    h("ol", { class: "steps" }, found.steps.map((step) =>
      h("li", {}, h("strong", {}, step.name.replaceAll("_", " ")), step.at ? h("span", { class: "soft" }, ` ${moment(step.at)}`) : null,
        step.recorded ? null : h("span", { class: "soft" }, " by the job's rules"),
        h("div", {}, step.reason))))) : null);
}
