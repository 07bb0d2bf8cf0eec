// Creates elements without markup in strings, so that data from the registry stays text.

export const $ = (id) => document.getElementById(id);

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
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== false));
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
  $("status").textContent = text;
}
