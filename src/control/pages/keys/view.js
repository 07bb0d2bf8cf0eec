// How keys are shown, and the choices of forms.

import { count, make } from "../assets/dom.js";

const DAY = 86_400;

/** Choices of an expiry, in days. */
export const EXPIRIES = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]];

/** How long an old key stays valid, in seconds. */
export const OVERLAPS = [[String(DAY), "for a day"], ["3600", "for an hour"], [String(7 * DAY), "for a week"], ["0", "not at all"]];

export const options = (choices) => choices.map(([value, text]) => make("option", { value }, text));

/** The field of a request for a choice of [`EXPIRIES`]. */
export const expiryOf = (days) =>
  days ? { expires_at: new Date(Date.now() + Number(days) * DAY * 1000).toISOString() } : {};

const TONES = { active: "good", expired: "warn", revoked: "bad" };

const time = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const at = (text, never) => (text ? make("time", { datetime: text }, time.format(new Date(text))) : never);

/** A row of the table. `actions`: functions of the key, by their names. */
export function keyRow(key, { all, actions }) {
  const button = (name) => make("button", {
    type: "button", class: `button quiet slim${name === "Revoke" ? " danger" : ""}`,
    "aria-label": `${name} ${key.prefix}`, onclick: () => actions[name](key),
  }, name);
  return make("tr", { role: "row", "data-prefix": key.prefix },
    cell("Key", make("code", {}, `${key.prefix}…`)),
    cell("Name", key.name),
    cell("Owner", all ? key.owner : "", "of-all"),
    cell("Requests a minute", count(key.rate_limit_per_minute)),
    cell("Expires", at(key.expires_at, "never")),
    cell("Last used", at(key.last_used_at, "never")),
    cell("Status", make("span", { class: `badge ${TONES[key.status] ?? ""}` }, key.status)),
    make("td", { role: "cell" }, key.status === "active"
      ? make("div", { class: "actions" }, Object.keys(actions).map(button)) : ""));
}

/** `data-label` labels the value when a narrow screen shows rows as cards; the roles keep it a table
    for screen readers. */
const cell = (label, content, classes = "") =>
  make("td", { role: "cell", "data-label": label, class: classes }, content);
