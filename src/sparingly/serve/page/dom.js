// Building and updating elements: text from the service only ever becomes a text node or an attribute that holds text.
// Nodes are kept and changed in place, so that whoever is typing or has the focus somewhere is not disturbed.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element; `on…` attributes are listeners, true and false set or leave out an attribute. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...parts(children));
  return node;
}

function parts(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replace what a node holds. */
export function fill(node, ...children) {
  node.replaceChildren(...parts(children));
  return node;
}

/** Change a node's text, if it is another: an unchanged live region stays silent, a selection stays selected. */
export function say(node, text) {
  const words = String(text);
  if (node.textContent !== words) fill(node, plain(words));
  return node;
}

/** Show or hide a node. */
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
  return node;
}

/** Text as it is, except that characters which make what follows run backwards do not, and can be seen. */
export function plain(text) {
  return text
    .split(/([\u202a-\u202e])/)
    .filter(Boolean)
    .map((part) =>
      /^[\u202a-\u202e]$/.test(part) ? el("span", { class: "control", "data-code": code(part) }, part) : part,
    );
}

const code = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase()}`;

/** Words of the service inside a sentence: whatever direction they are written in, the sentence keeps its own. */
export function quoted(text, attributes = {}) {
  return el("bdi", attributes, plain(String(text)));
}

/**
 * One child of `parent` for each item, in their order. A child whose key was there before is kept and updated.
 * `make(item)` gives {node, update(item)}.
 */
export function keyed(parent, items, key, make) {
  const before = parent.madeByKey ?? new Map();
  const after = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    const made = before.get(name) ?? make(item);
    made.update(item);
    after.set(name, made);
    if (made.node === place) place = place.nextSibling;
    else parent.insertBefore(made.node, place);
  }
  for (const [name, made] of before) if (!after.has(name)) made.node.remove();
  parent.madeByKey = after;
}

/** A field with its label above and a hint below. */
export function field(label, input, hint = "") {
  input.id ||= `field-${(field.count = (field.count ?? 0) + 1)}`;
  const note = hint ? el("small", { id: `${input.id}-hint` }, hint) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input, note);
}

export function select(options, attributes = {}) {
  return el(
    "select",
    attributes,
    Object.entries(options).map(([value, words]) => el("option", { value }, words)),
  );
}

/** What went wrong, in the service's own words where it has some. */
export function trouble(error) {
  const lines = [el("strong", {}, quoted(error.title ?? "Something went wrong")), " "];
  if (error.detail) lines.push(quoted(error.detail));
  return lines;
}
