// Builds elements. Text only ever becomes text nodes; attributes come from a fixed list.

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = new Set([
  "class", "id", "type", "href", "role", "tabindex", "title", "name", "value", "placeholder", "open", "hidden",
  "checked", "dir", "for", "d", "cx", "cy", "r", "x", "y", "width", "height", "viewBox", "autocomplete", "spellcheck",
  "target", "rel",
]);

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (ATTRIBUTES.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      if (name === "href" && !/^(#|https?:\/\/)/.test(value)) throw new Error("links go to this page or the web");
      element.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new Error(`attribute ${name} is not meant to be set`);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false && child !== "") element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);
// Opens the platform in a tab of its own, which learns nothing of this page.
const outside = (url, text) => h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, text);
const byId = (id) => document.getElementById(id);

function plural(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Activates an element that is not a button by mouse and by keyboard alike.
function onPress(listener) {
  return {
    click: listener,
    keydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        listener(event);
      }
    },
  };
}
