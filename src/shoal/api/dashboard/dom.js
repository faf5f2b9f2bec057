// Elements made of values, and a page that changes in place. No text ever becomes markup here.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "text"]);
const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange", "onpointermove", "onpointerleave"];

const RAW = new Set(["href", "src", "value", "id", "for", "name", "data-key"]);

/** A text in which nothing turns its neighbours round: signs that change the direction of writing are shown as such. */
export function visible(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase()}⟩`);
}

const isShown = (value) => value != null && value !== false;

/** An element: h("p.soft", "text", other), h("a", { href }, "text"). Null and false, as attribute or child, are left out. */
export function h(kind, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (HANDLERS.includes(name)) element[name] = value;
    else if (isShown(value)) element.setAttribute(name, value === true ? "" : RAW.has(name) ? String(value) : visible(String(value)));
  }
  element.append(...shown(children));
  return element;
}

function shown(children) {
  return children.flat(9).filter(isShown).map((child) => (typeof child === "string" ? visible(child) : child));
}

/** Make `old` look like `fresh`, keeping elements: focus, selections and what people have typed stay. */
function morph(old, fresh) {
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

const keyOf = (node) => node.dataset?.key ?? "";

/** What has a key that is wanted no longer goes first, so that the others find their likes in its place. */
function morphChildren(old, fresh) {
  const wantedKeys = new Set([...fresh.children].map(keyOf)), known = new Map();
  for (const child of [...old.children]) {
    if (wantedKeys.has(keyOf(child))) known.set(keyOf(child), child);
    else if (keyOf(child)) child.remove();
  }
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted), same = key ? known.get(key) : place;
    known.delete(key);
    if (same && same.nodeName === wanted.nodeName && keyOf(same) === key) {
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

export const byId = (id) => document.getElementById(id);

/** Show these in place of what an element holds. */
export function fill(element, ...children) {
  const fresh = element.cloneNode(false);
  fresh.append(...shown(children));
  morphChildren(element, fresh);
}

let hush = 0;
/** Tell the user, and a screen reader, one line. */
export function say(text) {
  const place = byId("said");
  clearTimeout(hush);
  fill(place, text && h("p", text));
  if (text) hush = setTimeout(() => say(""), 8000);
}
