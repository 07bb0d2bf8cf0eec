// Questions before a key is changed.

import { EXPIRIES, expiryOf, options, OVERLAPS } from "./view.js";
import { $, inert, make } from "../assets/dom.js";

let resolveQuestion = () => {};

export function setUpDialog() {
  $("change-form").addEventListener("submit", (event) => {
    event.preventDefault();
    resolveQuestion(true);
    $("change").close();
  });
  $("cancel").addEventListener("click", () => $("change").close());
  $("change").addEventListener("close", () => resolveQuestion(false));
}

/** Whether the user confirms. */
function confirmed({ title, text, button, fields = [] }) {
  $("change-title").textContent = inert(title);
  $("change-text").textContent = inert(text);
  $("confirm").textContent = button;
  $("change-fields").replaceChildren(...fields);
  $("change").showModal();
  // Not on the button that confirms.
  ($("change-fields").querySelector("input, select") ?? $("cancel")).focus();
  return new Promise((resolve) => { resolveQuestion = resolve; });
}

const field = (id, text, input) => make("div", {}, make("label", { for: id }, text), input);

const named = (key) => `${key.prefix}… (${key.name})`;

export const ask = {
  /** What is to be changed, or `null`. */
  async change(key) {
    const name = make("input", { id: "new-name", maxlength: 200, required: true, value: key.name });
    const limit = make("input", { id: "new-limit", type: "number", min: 1, max: 2147483647, required: true, value: key.rate_limit_per_minute });
    const expires = make("select", { id: "new-expires" }, options([["unchanged", "unchanged"], ...EXPIRIES]));
    const isConfirmed = await confirmed({
      title: `Change ${named(key)}`, text: "It takes effect within two seconds. The key itself stays the same.", button: "Change",
      fields: [field("new-name", "Name", name), field("new-limit", "Requests a minute", limit), field("new-expires", "Expires", expires)],
    });
    if (!isConfirmed) return null;
    const change = {};
    if (name.value !== key.name) change.name = name.value;
    if (Number(limit.value) !== key.rate_limit_per_minute) change.rate_limit_per_minute = Number(limit.value);
    if (expires.value === "") change.never_expires = true;
    else if (expires.value !== "unchanged") Object.assign(change, expiryOf(expires.value));
    return Object.keys(change).length ? change : null;
  },

  /** How long the old key stays valid, in seconds, or `null`. */
  async rotation(key) {
    const overlap = make("select", { id: "overlap" }, options(OVERLAPS));
    const isConfirmed = await confirmed({
      title: `Rotate ${named(key)}`, text: "A new key with the same name, limit, scopes and lifetime replaces it.", button: "Rotate",
      fields: [field("overlap", "The old key stays valid", overlap)],
    });
    return isConfirmed ? Number(overlap.value) : null;
  },

  revocation: (key) => confirmed({
    title: `Revoke ${named(key)}`, text: "Requests with it are refused within two seconds. This cannot be undone.", button: "Revoke",
  }),
};
