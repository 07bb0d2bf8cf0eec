// What the arena shows, as its address says, and links to other views.

import { make } from "../assets/dom.js";
import { root } from "../assets/key.js";

export const DEFAULTS = { domain: "", owner: "", fidelity: "", sort: "fitness", limit: "20", offset: "0" };

const OFFERED = {
  fidelity: ["", "Native", "Hybrid", "Wrapped"],
  sort: ["fitness", "reputation", "downloads"],
  limit: ["10", "20", "50"],
};
/** Longest name of a domain, in characters. */
const MAX_DOMAIN = 255;

/** The genes of an owner: on the largest pages, since the API cannot search for them. */
export const ofOwner = (domain, owner) => ({ ...DEFAULTS, domain, owner, limit: "50" });

const isOffered = (name, value) => {
  if (name === "domain") return [...value].length <= MAX_DOMAIN;
  if (name === "owner") return true;
  return name === "offset" ? /^\d{1,9}$/.test(value) : OFFERED[name].includes(value);
};

/** The view of an address, and the names of what it has and the page does not offer: these are the
    defaults in the view. */
export function viewOf(address) {
  const view = { ...DEFAULTS };
  const wrong = [];
  for (const [name, value] of address.searchParams) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    if (isOffered(name, value)) view[name] = value;
    else wrong.push(name);
  }
  return { view, wrong };
}

export function addressOf(view) {
  const address = new URL("arena", root);
  for (const [name, value] of Object.entries({ ...DEFAULTS, ...view })) {
    if (value !== DEFAULTS[name]) address.searchParams.set(name, value);
  }
  return address;
}

export const geneAddress = (id) => new URL(`genes/${encodeURIComponent(id)}`, root);

/** Whether a click opens a link in another tab or window, or downloads it. */
export const opensElsewhere = (event) => event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

/** A link to a view. `go` follows it without loading the page anew, unless it is opened elsewhere. */
export function viewLink(view, go, attributes, ...children) {
  return make("a", {
    ...attributes,
    href: addressOf(view).href,
    onclick(event) {
      if (opensElsewhere(event)) return;
      event.preventDefault();
      go(view);
    },
  }, ...children);
}
