// Making elements, and the tooltip.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = id => document.getElementById(id);

/** A button of which `act` says what it does. */
const button = (text, act, attributes) => h("button", { type: "button", onclick: act, ...attributes }, text);

const swatch = color => h("span", { class: "swatch", style: `background: var(--${color})` });

const legend = entries =>
  h("div", { class: "legend" }, entries.map(([color, text]) => h("span", {}, swatch(color), text)));

/** Shows lines beside the pointer; the first of them is a title. */
function showTip(event, [title, ...lines]) {
  const tip = byId("tip");
  tip.replaceChildren(h("b", {}, title), lines.filter(line => line).join("\n"));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 16 + width > innerWidth ? event.clientX - 12 - width : event.clientX + 16;
  const y = event.clientY + 16 + height > innerHeight ? event.clientY - 12 - height : event.clientY + 16;
  tip.style.left = `${Math.max(0, x)}px`;
  tip.style.top = `${Math.max(0, y)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** Attributes of what shows a tooltip while the pointer is on it. */
const tipped = lines => ({ onmousemove: event => showTip(event, lines()), onmouseleave: hideTip });
