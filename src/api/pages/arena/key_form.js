// The form for the key, and the line that shows it.

import { forgetRateLimit, rateLimit } from "./api.js";
import { $, count } from "../assets/dom.js";
import { abbreviate, canBeKey, forgetKey, key, onKeyChange, storeKey } from "../assets/key.js";

/** Shows the form if there is no key, else the key's line. */
export function showKey() {
  const has = Boolean(key());
  $("key-line").hidden = !has;
  $("key-form").hidden = has;
  if (has) $("key-shown").textContent = `Key ${abbreviate(key())}`;
  $("rate-limit").textContent = rateLimit
    ? `${count(rateLimit.remaining)} of ${count(rateLimit.limit)} requests remain this minute` : "";
}

/** Shows the form; with `isWrong`, the text in it is a key that was not accepted. */
export function askForKey({ isWrong = false } = {}) {
  forgetRateLimit();
  showKey();
  if (!isWrong) $("key").value = "";
  if (isWrong) $("key").setAttribute("aria-invalid", "true");
  else $("key").removeAttribute("aria-invalid");
  $("key").focus({ preventScroll: true });
}

/** `start` is called with a new key, `refuse` with a text that cannot be one, `end` when the key has
    been forgotten. */
export function setUpKeyForm({ start, refuse, end }) {
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = $("key").value.trim();
    if (!canBeKey(value)) return refuse();
    storeKey(value);
    $("key").value = "";
    $("main").focus({ preventScroll: true });
    start();
  });
  $("key-forget").addEventListener("click", () => {
    forgetKey();
    end();
  });
  onKeyChange(() => (key() ? start() : end()));
}
