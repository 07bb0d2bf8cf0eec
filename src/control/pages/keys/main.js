// The page for API keys. A secret key is in the page only while it is shown.

import * as api from "./api.js";
import { ask, setUpDialog } from "./dialog.js";
import { begin, finish, LoginError, takeResponse } from "./login.js";
import { expiryOf, EXPIRIES, keyRow, options } from "./view.js";
import { copy, showCopied } from "../assets/copy.js";
import { $, announce, inert } from "../assets/dom.js";

/** How to log in. */
const settings = JSON.parse($("login").dataset.settings);
/** The keys that are shown, and whether they are those of all users. */
let listed = { keys: [], all: false };

// ---------------------------------------------------------------- login

async function start() {
  const response = takeResponse();
  if (!response) return showLogin();
  if (!settings.oidc) return showLogin(new LoginError("This service cannot complete the login now. Log in again."));
  try {
    await useToken(await finish(response, settings.oidc));
  } catch (error) {
    showLogin(error);
  }
}

async function useToken(token) {
  api.setToken(token);
  const user = await api.whoami();
  $("user").textContent = inert(`Logged in as ${user.user}${user.operator ? ", an operator" : ""}.`);
  for (const id of ["user", "log-out"]) $(id).hidden = false;
  $("login").hidden = true;
  $("keys").hidden = false;
  $("all-label").hidden = !user.operator;
  hideError();
  await reload();
}

function showLogin(error = null) {
  api.setToken(null);
  // A new key stays: nobody else has it.
  for (const id of ["keys", "user", "log-out"]) $(id).hidden = true;
  listed = { keys: [], all: false };
  $("rows").replaceChildren();
  $("all").checked = false;
  $("create").reset();
  $("login").hidden = false;
  $("login-oidc").hidden = !settings.oidc;
  if (settings.oidc) $("issuer").textContent = new URL(settings.oidc.issuer).host;
  $("token-form").hidden = !settings.methods.includes("token");
  const isMissing = settings.methods.includes("oidc") && !settings.oidc;
  if (error ?? isMissing) showError(error || new LoginError("The issuer that users log in at cannot be used now. Reload this page later."));
}

$("log-out").addEventListener("click", () => attempt(async () => {
  showLogin();
  $("main").focus({ preventScroll: true });
  announce("Logged out.");
}));

$("begin").addEventListener("click", () => attempt(() => begin(settings.oidc)));

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  attempt(() => useToken(token).catch(showLogin));
});

// ---------------------------------------------------------------- the list

/** Lists the keys anew, as many as were shown. */
async function reload() {
  const count = listed.keys.length;
  listed = { keys: [], all: $("all").checked };
  do await more(); while (listed.keys.length < count && !$("more").hidden);
}

async function more() {
  const { keys, all } = listed;
  const page = await api.list(keys.length, all);
  keys.push(...page.data);
  document.body.classList.toggle("with-owners", all);
  $("rows").replaceChildren(...keys.map((key) => keyRow(key, { all, actions: ACTIONS })));
  $("more").hidden = !page.has_more;
  $("none").hidden = keys.length > 0;
  announce(`${keys.length} of ${page.total} keys shown.`);
}

$("more").addEventListener("click", () => attempt(more));
for (const [id, event] of [["reload", "click"], ["all", "change"]]) $(id).addEventListener(event, () => attempt(reload));

// ---------------------------------------------------------------- changes

$("expires").replaceChildren(...options(EXPIRIES));

$("create").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    requireStored();
    showSecret(await api.create({
      name: $("name").value, rate_limit_per_minute: Number($("limit").value), ...expiryOf($("expires").value),
    }));
    $("create").reset();
    await reload();
  });
});

const selected = (key) => ({ prefix: key.prefix, ...(listed.all ? { all: true } : {}) });

/** Each returns whether it has changed the key. */
const CHANGES = {
  async Change(key) {
    const change = await ask.change(key);
    if (change) await api.update({ ...selected(key), ...change });
    return Boolean(change);
  },
  async Rotate(key) {
    requireStored();
    const overlap = await ask.rotation(key);
    if (overlap !== null) showSecret(await api.rotate({ ...selected(key), overlap_s: overlap }));
    return overlap !== null;
  },
  async Revoke(key) {
    const isConfirmed = await ask.revocation(key);
    if (isConfirmed) await api.revoke(selected(key));
    return isConfirmed;
  },
};

const ACTIONS = Object.fromEntries(Object.entries(CHANGES).map(([name, change]) => [name, (key) => attempt(async () => {
  if (!await change(key)) return;
  await reload();
  // The row that was used is gone.
  if ($("created").hidden) (rowOf(key)?.querySelector("button") ?? $("main")).focus();
})]));

const rowOf = (key) => [...$("rows").children].find((row) => row.dataset.prefix === key.prefix);

/** A new key is never replaced by another one before the user has stored it. */
function requireStored() {
  if (!$("created").hidden) throw new api.CallError("First store the new key above, and choose “I have stored it”.", 0);
}

function showSecret({ key }) {
  $("secret").textContent = key;
  $("created").hidden = false;
  $("created-title").focus();
}

$("copy").addEventListener("click", async () => {
  showCopied($("copy"), await copy($("secret")), "the new key");
});

$("done").addEventListener("click", () => {
  $("secret").textContent = "";
  $("created").hidden = true;
  $("main").focus({ preventScroll: true });
});

// Nobody else has a key that the user has not stored yet.
addEventListener("beforeunload", (event) => { if (!$("created").hidden) event.preventDefault(); });

// A page that the browser keeps for its back button must not keep the key.
addEventListener("pagehide", () => {
  $("secret").textContent = "";
  $("created").hidden = true;
});
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// ---------------------------------------------------------------- errors

let isBusy = false;

/** Runs an action, unless another one is under way: a key must not be created twice. */
async function attempt(action) {
  if (isBusy) return;
  isBusy = true;
  document.body.setAttribute("aria-busy", "true");
  hideError();
  try {
    await action();
  } catch (error) {
    if (error.status === 401) showLogin(error);
    else showError(error);
  } finally {
    isBusy = false;
    document.body.removeAttribute("aria-busy");
  }
}

function showError(error) {
  const isKnown = error instanceof api.CallError || error instanceof LoginError;
  if (!isKnown) console.error(error);
  $("error").textContent = inert(isKnown ? error.message : "This page failed. Reload it.");
  $("error").hidden = false;
  $("error").focus();
}

function hideError() {
  $("error").hidden = true;
}

setUpDialog();
attempt(start);
