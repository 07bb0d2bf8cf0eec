// Messages for failed requests: the cause, and what to do.

import { $, announce, make } from "../assets/dom.js";
import { domainsSeen } from "./seen.js";

const MESSAGES = {
  key: () => ["This key was not accepted",
    "It may be mistyped, expired or revoked, or lack the scope read; the service does not say which. Enter it again, or use another."],
  blocked: () => ["This key is not accepted", "Its limit is 0 requests a minute. Use another key."],
  limit: ({ limit }) => ["This key has used up its limit",
    `It allows ${limit === null ? "a set number of" : limit} ${limit === 1 ? "request" : "requests"} a minute. Requests are accepted again when the minute is over.`],
  database: () => ["The registry's database is unavailable",
    "The service still shows recently read data, but not this. Your key is fine; try again in a moment."],
  busy: () => ["The service is overloaded",
    "It could not process this request. Try again shortly."],
  domain: ({ domain }) => [`There is no domain “${domain}”`,
    "A domain exists when it has a published gene. Its name is matched exactly, including capitals and dots."],
  missing: () => ["This gene no longer exists", "It may have been unpublished since the list was loaded."],
  query: ({ message }) => ["The service refused this request", message],
  network: () => ["The service can't be reached",
    "It may be restarting, or your network may be down. The data on the page is kept."],
  internal: () => ["Internal error of the service", "The service has logged it. Try again; if that does not help, tell the operator."],
};

let timer = null;

export function clearError() {
  clearInterval(timer);
  $("error").hidden = true;
  $("error").replaceChildren();
}

/** Shows the message on the page; `repeat` repeats the request. */
export function showError(error, repeat, choose) {
  clearError();
  const notice = $("error");
  notice.dataset.kind = error.kind;
  notice.append(...message(error));
  if (error.kind === "domain") {
    const others = domainsSeen().slice(0, 8);
    if (others.length) {
      notice.append(make("p", { class: "small" }, "Domains seen so far: "),
        make("div", { class: "chips" }, others.map((name) =>
          make("button", { type: "button", class: "chip", onclick: () => choose(name) }, name))));
    }
  } else if (!["key", "blocked", "query"].includes(error.kind)) {
    notice.append(retry(error, repeat));
  }
  notice.hidden = false;
}

/** Title and text of a message. */
export function message(error) {
  const [title, text] = (MESSAGES[error.kind] ?? MESSAGES.internal)(error);
  return [make("h2", {}, title), make("p", {}, text)];
}

/** A button that is enabled after the waiting time, with a countdown. When it was the key's limit that was
    reached, the request is repeated then. */
export function retry(error, repeat) {
  const button = make("button", { type: "button", class: "button slim", onclick: repeat }, "Try again");
  const remaining = () => Math.max(0, Math.ceil((error.until - Date.now()) / 1000));
  if (remaining() === 0) return make("p", { class: "retry" }, button);
  // Screen readers announce only the start and the end of the countdown.
  const countdown = make("span", { class: "countdown", "aria-hidden": "true" });
  const spoken = make("span", { class: "visually-hidden" }, `You can try again in ${remaining()} seconds.`);
  const tick = () => {
    const seconds = remaining();
    countdown.textContent = seconds ? `${seconds} s remaining` : "";
    button.disabled = seconds > 0;
    if (seconds === 0) {
      clearInterval(timer);
      spoken.textContent = "";
      announce(error.kind === "limit" ? "Trying again." : "You can try again now.");
      if (error.kind === "limit") repeat();
    }
  };
  clearInterval(timer);
  timer = setInterval(tick, 250);
  tick();
  return make("p", { class: "retry" }, button, countdown, spoken);
}
