// Says kindly what went wrong, what it means and what can be done.

import { $, announce, make } from "./dom.js";
import { domainsSeen } from "./key.js";

const WORDS = {
  key: () => ["This key was not accepted",
    "It may be mistyped, expired or revoked, or lack the scope read; the service does not say which. Please look at it again, or use another."],
  limit: ({ limit }) => ["This key has used up its limit",
    `It allows ${limit === null ? "a set number of" : limit} ${limit === 1 ? "request" : "requests"} a minute. More can be asked for when the minute is over.`],
  database: () => ["The registry's database can't be read at the moment",
    "The service itself is up, and goes on answering what it has read lately; this was not among it. It usually takes a moment, and your key is fine."],
  busy: () => ["The service has too much to do at the moment",
    "It could not take this request. It will be able to again shortly."],
  domain: ({ domain }) => [`There is no domain “${domain}”`,
    "A domain exists when it has a published gene. Its name is matched exactly, capitals and dots too."],
  missing: () => ["This gene is no longer there", "It may have been unpublished since the list was read."],
  query: ({ message }) => ["The service did not understand this", message],
  network: () => ["The service can't be reached",
    "It may be restarting, or your network may be away. What is on the page stays."],
  fault: () => ["Something went wrong in the service", "It has been logged there. Trying again may help."],
};

let timer = null;

export function clearTrouble() {
  clearInterval(timer);
  $("trouble").hidden = true;
  $("trouble").replaceChildren();
}

/** Shows it in place of the page's notice; `again` is what trying again means. */
export function showTrouble(trouble, again, choose) {
  clearTrouble();
  const place = $("trouble");
  place.dataset.kind = trouble.kind;
  place.append(...words(trouble));
  if (trouble.kind === "domain") {
    const others = domainsSeen().slice(0, 8);
    if (others.length) {
      place.append(make("p", { class: "small" }, "Domains seen so far: "),
        make("div", { class: "chips" }, others.map((name) =>
          make("button", { type: "button", class: "chip", onclick: () => choose(name) }, name))));
    }
  } else if (trouble.kind !== "key" && trouble.kind !== "query") {
    place.append(retry(trouble, again));
  }
  place.hidden = false;
}

/** Title and text of a trouble, for anywhere. */
export function words(trouble) {
  const [title, text] = (WORDS[trouble.kind] ?? WORDS.fault)(trouble);
  return [make("h2", {}, title), make("p", {}, text)];
}

/** A button that opens when the time has come, with the seconds until then. */
export function retry(trouble, again) {
  const button = make("button", { type: "button", class: "button slim", onclick: again }, "Try again");
  const left = () => Math.max(0, Math.ceil((trouble.until - Date.now()) / 1000));
  if (left() === 0) return make("p", { class: "retry" }, button);
  // Counting down aloud would be a torment: only the beginning and the end are said.
  const ticking = make("span", { class: "countdown", "aria-hidden": "true" });
  const said = make("span", { class: "visually-hidden" }, `You can try again in ${left()} seconds.`);
  const tick = () => {
    const seconds = left();
    ticking.textContent = seconds ? `${seconds} s left` : "";
    button.disabled = seconds > 0;
    if (seconds === 0) {
      clearInterval(timer);
      said.textContent = "";
      announce("You can try again now.");
    }
  };
  clearInterval(timer);
  timer = setInterval(tick, 250);
  tick();
  return make("p", { class: "retry" }, button, ticking, said);
}
