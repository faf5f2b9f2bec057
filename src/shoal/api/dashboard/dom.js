// Elements made of values, and a page that changes in place. No text ever becomes markup here.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "text", "rect", "g", "title", "desc", "circle", "polyline"]);
const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange", "onkeydown", "onpointermove", "onpointerleave"];

const RAW = new Set(["href", "src", "value", "id", "for", "name", "data-key"]);

/** A text in which nothing turns its neighbours round: signs that change the direction of writing are shown as such. */
export function visible(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase()}⟩`);
}

/** An element: h("p", { class: "soft" }, "text", other). Null and false children are left out. */
export function h(tag, attributes = {}, ...children) {
  const inSvg = SVG_TAGS.has(tag) && (tag !== "title" || attributes.svg);
  const element = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (HANDLERS.includes(name)) element[name] = value;
    else if (name === "svg" || value === null || value === undefined || value === false) continue;
    else element.setAttribute(name, value === true ? "" : RAW.has(name) ? String(value) : visible(String(value)));
  }
  element.append(...shown(children));
  return element;
}

function shown(children) {
  return children.flat(9).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "string" ? visible(child) : child));
}

/** Make `old` look like `fresh`, keeping elements: focus, selections and what people have typed stay. */
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !kept(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !kept(old, name)) old.setAttribute(name, value);
  }
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
  morphChildren(old, fresh);
}

function kept(element, name) {
  return name === "aria-busy" || (name === "open" && (element.tagName === "DETAILS" || element.tagName === "DIALOG"));
}

function morphChildren(old, fresh) {
  const known = new Map();
  for (const child of old.children) if (child.dataset?.key) known.set(child.dataset.key, child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    const same = key ? known.get(key) : place;
    if (same && fits(same, wanted)) {
      if (same !== place) old.insertBefore(same, place);
      else place = place.nextSibling;
      if (same.nodeType === Node.TEXT_NODE) {
        if (same.data !== wanted.data) same.data = wanted.data;
      } else morph(same, wanted);
    } else old.insertBefore(wanted, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function fits(one, other) {
  return one.nodeName === other.nodeName && (one.dataset?.key ?? "") === (other.dataset?.key ?? "");
}

/** Show these in place of what an element holds. */
export function fill(element, ...children) {
  const fresh = element.cloneNode(false);
  fresh.append(...shown(children));
  morphChildren(element, fresh);
}

let hush = 0;
/** Tell the user, and a screen reader, one line. */
export function say(text) {
  const place = document.getElementById("said");
  clearTimeout(hush);
  fill(place, text ? h("p", {}, text) : null);
  if (text) hush = setTimeout(() => say(""), 8000);
}
