// Why a URL was fetched, or why not: each step with its time.

import { go } from "/ui/api.js";
import { fill, h } from "/ui/dom.js";
import { moment, word } from "/ui/format.js";
import { badge, card, field, form, values } from "/ui/parts.js";

export async function explain(body, { id, asked, get }) {
  const url = asked("url");
  let found = null, error = null;
  if (url) {
    try { found = await get(`jobs/${id}/explain`, { url }); } catch (refusal) { error = refusal; }
  }
  fill(body,
    form({ class: "card", error, novalidate: false, work: (given) => go(`jobs/${id}/explain`, values(given)) }, h("div.row.end",
      field("url", "URL, as it stands on a page or in a list", { value: url, size: 60, required: true, placeholder: "https://…" }, error),
      h("button.main", "Explain"))),
    found && card(h("h2", badge(found.verdict), ` ${found.summary}`),
      h("p.mono", found.url),
      !found.certain && h("p.soft", "What rules leave out is not kept one by one: this is worked out."),
      h("ol.steps", found.steps.map((step) =>
        h("li", h("strong", word(step.name)), step.at && h("span.soft", ` ${moment(step.at)}`),
          !step.recorded && h("span.soft", " by the job's rules"),
          h("div", step.reason))))));
}
