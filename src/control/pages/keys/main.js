// The page for API keys. A secret key is in the page only while it is shown.

import * as api from "./api.js";
import { ask, setUpDialog } from "./dialog.js";
import { begin, finish, LoginError, takeResponse } from "./login.js";
import { expiryOf, EXPIRIES, keyRow, options } from "./view.js";
import { copy } from "../assets/copy.js";
import { $, announce, inert } from "../assets/dom.js";

/** How to log in. */
let settings = null;
let user = null;
let shown = [];

// ---------------------------------------------------------------- login

async function start() {
  const response = takeResponse();
  settings = await (await fetch(new URL("keys/login.json", document.baseURI))).json();
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
  user = await api.whoami();
  $("user").textContent = inert(`Logged in as ${user.user}${user.operator ? ", an operator" : ""}.`);
  $("user").hidden = false;
  $("login").hidden = true;
  $("keys").hidden = false;
  $("all-label").hidden = !user.operator;
  hideError();
  await reload();
}

function showLogin(error = null) {
  api.setToken(null);
  // A new key stays: nobody else has it.
  for (const id of ["keys", "user"]) $(id).hidden = true;
  $("rows").replaceChildren();
  $("login").hidden = false;
  $("login-oidc").hidden = !settings?.oidc;
  if (settings?.oidc) $("issuer").textContent = new URL(settings.oidc.issuer).host;
  $("token-form").hidden = !settings?.methods.includes("token");
  if (error) showError(error);
}

$("begin").addEventListener("click", () => begin(settings.oidc));

$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  try {
    await useToken(token);
  } catch (error) {
    showLogin(error);
  }
});

// ---------------------------------------------------------------- the list

async function reload() {
  shown = [];
  await more();
}

async function more() {
  const page = await api.list(shown.length, $("all").checked);
  shown.push(...page.data);
  document.body.classList.toggle("with-owners", $("all").checked);
  $("rows").replaceChildren(...shown.map((key) => keyRow(key, { all: $("all").checked, actions: ACTIONS })));
  $("more").hidden = !page.has_more;
  $("none").hidden = shown.length > 0;
  announce(`${shown.length} of ${page.total} keys shown.`);
}

$("more").addEventListener("click", () => attempt(more));
$("all").addEventListener("change", () => attempt(reload));

// ---------------------------------------------------------------- changes

$("expires").replaceChildren(...options(EXPIRIES));

$("create").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const created = await api.create({
      name: $("name").value, rate_limit_per_minute: Number($("limit").value), ...expiryOf($("expires").value),
    });
    showSecret(created);
    $("create").reset();
    await reload();
  });
});

const selected = (key) => ({ prefix: key.prefix, ...($("all").checked ? { all: true } : {}) });

const ACTIONS = {
  async Change(key) {
    const change = await ask.change(key);
    if (change) await api.update({ ...selected(key), ...change });
  },
  async Rotate(key) {
    const overlap = await ask.rotation(key);
    if (overlap !== null) showSecret(await api.rotate({ ...selected(key), overlap_s: overlap }));
  },
  async Revoke(key) {
    if (await ask.revocation(key)) await api.revoke(selected(key));
  },
};
for (const [name, action] of Object.entries(ACTIONS)) {
  ACTIONS[name] = (key) => attempt(async () => {
    await action(key);
    await reload();
  });
}

function showSecret({ key }) {
  $("secret").textContent = key;
  $("created").hidden = false;
  $("created-title").focus();
}

$("copy").addEventListener("click", async () => {
  announce((await copy($("secret"))) ? "Copied: the new key" : "Selected. Press Ctrl-C to copy it.");
});

$("done").addEventListener("click", () => {
  $("secret").textContent = "";
  $("created").hidden = true;
  $("main").focus({ preventScroll: true });
});

// A page that the browser keeps for its back button must not keep the key.
addEventListener("pagehide", () => {
  $("secret").textContent = "";
  $("created").hidden = true;
});
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// ---------------------------------------------------------------- errors

async function attempt(action) {
  hideError();
  try {
    await action();
  } catch (error) {
    if (error.status === 401) showLogin(error);
    else showError(error);
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
start().catch((error) => showError(error));
