// The field for a domain: any name can be typed, and known names can be chosen (the combobox of the ARIA
// Authoring Practices, with a list). A search for more names is made on demand.

import * as api from "./api.js";
import { $, announce, count, make } from "../assets/dom.js";
import { domainsSeen, rememberDomains } from "./seen.js";
import { root } from "../assets/key.js";

/** Longest list of options. */
const MAX_SHOWN = 100;
const PAGE = 50;
const MAX_REQUESTS = 40;

const genes = (number) => `${count(number)} ${number === 1 ? "gene" : "genes"}`;

let choose = () => {};
/** The sizes of the domains whose names are public. */
let published = new Map();
/** The names in the list, and the index of the active one. */
let names = [];
let active = -1;

/** `go` is called with a domain that was typed or chosen. */
export function setUpDomains(go) {
  choose = go;
  const field = $("domain");
  $("domain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    close();
    choose(field.value.trim());
  });
  field.addEventListener("input", () => list(field.value.trim()));
  field.addEventListener("keydown", onKey);
  field.addEventListener("blur", close);
  $("find").addEventListener("click", find);
  loadPublished();
}

/** Loads the names that are public, if the operator has made them so. It needs no key. */
async function loadPublished() {
  try {
    const response = await fetch(new URL("domains.json", root));
    if (response.status !== 200) return;
    const { domains } = await response.json();
    published = new Map(domains.map(({ domain, genes }) => [domain, genes]));
    showFinder();
  } catch {
    // Without the list, there are the names that have been seen.
  }
}

function matching(text) {
  const words = text.toLocaleLowerCase();
  // The largest come first.
  const known = [...new Set([...published.keys(), ...domainsSeen()])];
  return known.filter((name) => name.toLocaleLowerCase().includes(words)).slice(0, MAX_SHOWN);
}

function list(text) {
  names = matching(text);
  active = -1;
  $("domains").replaceChildren(...names.map((name, index) => make("li", {
    role: "option", id: `domain-${index}`, "aria-selected": "false",
    // Before the field loses the focus.
    onpointerdown(event) {
      event.preventDefault();
      pick(name);
    },
  }, name, published.has(name) && make("span", { class: "small soft" }, ` ${genes(published.get(name))}`))));
  const isOpen = names.length > 0;
  $("domains").hidden = !isOpen;
  $("domain").setAttribute("aria-expanded", String(isOpen));
  $("domain").removeAttribute("aria-activedescendant");
}

function close() {
  active = -1;
  $("domains").hidden = true;
  $("domain").setAttribute("aria-expanded", "false");
  $("domain").removeAttribute("aria-activedescendant");
}

function pick(name) {
  $("domain").value = name;
  close();
  choose(name);
}

function onKey(event) {
  const isOpen = !$("domains").hidden;
  if (event.key === "Escape" && isOpen) {
    event.preventDefault();
    close();
  } else if (["ArrowDown", "ArrowUp"].includes(event.key)) {
    event.preventDefault();
    if (!isOpen) list(event.altKey ? "" : $("domain").value.trim());
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter" && isOpen && active >= 0) {
    event.preventDefault();
    pick(names[active]);
  }
}

function move(step) {
  const all = [...$("domains").children];
  if (!all.length) return;
  active = (active + step + all.length) % all.length;
  all.forEach((option, index) => option.setAttribute("aria-selected", String(index === active)));
  $("domain").setAttribute("aria-activedescendant", all[active].id);
  all[active].scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------- more names

/** The requests that a search may take: half of what the key's window leaves. */
const affordable = () => Math.min(MAX_REQUESTS, Math.floor((api.rateLimit?.remaining ?? 2 * MAX_REQUESTS) / 2));

/** Shows what a search would cost, or that it cannot be afforded. */
export function showFinder() {
  $("find").hidden = published.size > 0;
  const requests = affordable();
  $("find").disabled = requests === 0;
  $("find").textContent = requests
    ? `Look for domains (up to ${count(requests)} ${requests === 1 ? "request" : "requests"})` : "Look for domains: too few requests remain";
}

async function find() {
  const before = domainsSeen().length;
  $("find").disabled = true;
  announce("Looking for domains …");
  let [offset, total, failed] = [0, 0, false];
  const found = [];
  for (let left = affordable(); left > 0 && offset !== null; left -= 1) {
    try {
      const page = await api.genes({ limit: PAGE, offset });
      found.push(...page.data);
      [offset, total] = [page.next, page.total];
    } catch (error) {
      if (!(error instanceof api.RequestError)) throw error;
      failed = true;
      break;
    }
  }
  rememberDomains(found);
  const more = domainsSeen().length - before;
  const seen = found.length < total ? `the best ${count(found.length)} of ${count(total)} genes` : `all ${count(total)} genes`;
  $("found").textContent = `${count(more)} more ${more === 1 ? "domain" : "domains"} in ${seen}.${failed ? " Then a request failed." : ""}`;
  $("found").hidden = false;
  announce($("found").textContent);
  choose($("domain").value.trim(), { isSame: true });
}
