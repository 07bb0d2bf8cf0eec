// Creates elements without markup in strings, so that data from the registry stays text.

export const $ = (id) => document.getElementById(id);

// The characters that src/registry/deceptive.rs calls deceptive, and where it does not.
const DECEPTIVE = "[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Bidi_C}\\p{DI}]";
const SELECTOR = "[\\u180b-\\u180d\\u180f\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]";
const SHOWN = `[\\n\\t]|(?!${DECEPTIVE}|\\s)[^\\0-\\x7f]${SELECTOR}?[\\u200c\\u200d]?`;
const CHARACTERS = new RegExp(`(${SHOWN})|${DECEPTIVE}`, "gu");

/** The text with controls, marks of direction and invisible characters as escapes: `\u{202e}`. */
export const inert = (text) =>
  text.replace(CHARACTERS, (found, shown) => shown ?? `\\u{${found.codePointAt(0).toString(16)}}`);

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `null` and `false` children are left out. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "aria-label") element.setAttribute(name, inert(value));
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  const given = children.flat(Infinity).filter((child) => child !== null && child !== false);
  element.append(...given.map((child) => (typeof child === "string" ? inert(child) : child)));
  return element;
}

const whole = new Intl.NumberFormat("en");
export const count = (value) => whole.format(value);
export const decimal = (value, digits = 3) => value.toFixed(digits);
export const percent = (value) => `${Math.round(value * 100)} %`;

const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
export const day = (time) => DAY.format(time);

/** Announces a text to screen readers. */
export function announce(text) {
  $("status").textContent = inert(text);
}
