// The arena. It shows what its address says. Opening a domain takes two requests (insights and
// ranking), or three if the plot needs another page of the ranking.

import * as api from "./api.js";
import { $, announce, count, inert, make } from "./dom.js";
import { abbreviate, canBeKey, domainsSeen, key, rememberDomains, removeKey, storeKey } from "./key.js";
import { showOverview } from "./overview.js";
import { openPhenotype } from "./phenotype.js";
import { showTable } from "./table.js";
import { clearError, showError } from "./errors.js";

const DEFAULTS = { domain: "", fidelity: "", sort: "fitness", limit: "20", offset: "0" };
/** Maximum number of chips; the field suggests all domains. */
const CHIPS = 12;

let current = null;
let activeRequest = null;

/** The view of an address; values that the page does not offer become defaults. */
function viewOf(address) {
  const view = { ...DEFAULTS };
  for (const name of Object.keys(view)) view[name] = address.searchParams.get(name) ?? view[name];
  for (const name of ["fidelity", "sort", "limit"]) {
    const offered = [...$(name).options].map((option) => option.value);
    if (!offered.includes(view[name])) view[name] = DEFAULTS[name];
  }
  if (!/^\d{1,9}$/.test(view.offset)) view.offset = DEFAULTS.offset;
  return view;
}

function addressOf(view) {
  const address = new URL(location.href);
  address.search = "";
  for (const [name, value] of Object.entries(view)) {
    if (value !== DEFAULTS[name]) address.searchParams.set(name, value);
  }
  return address;
}

function go(change) {
  const view = { ...viewOf(new URL(location.href)), ...change };
  history.pushState(null, "", addressOf(view));
  return show(view);
}

const goToDomain = (domain) => go({ ...DEFAULTS, domain });

async function show(view, { reload = false } = {}) {
  updateControls(view);
  clearError();
  if (!key()) return askForKey();
  activeRequest?.abort();
  activeRequest = new AbortController();
  const { signal } = activeRequest;
  const replacesAll = reload || current?.domain !== view.domain;
  if (replacesAll) ["overview", "ranking"].forEach((id) => { $(id).hidden = true; });
  announce("Loading …");
  document.body.setAttribute("aria-busy", "true");
  try {
    const page = pageLoader(signal);
    if (replacesAll && view.domain) await Promise.all([overview(view, page, signal), ranking(view, page, signal)]);
    else await ranking(view, page, signal);
    current = view;
  } catch (error) {
    if (error.name === "AbortError") return;
    activeRequest.abort();
    if (replacesAll) current = null;
    reportError(error, view);
  } finally {
    if (!signal.aborted || activeRequest.signal === signal) document.body.removeAttribute("aria-busy");
    showRateLimit();
    suggestions();
  }
}

/** Loads each page of genes once, even if both overview and ranking need it. */
function pageLoader(signal) {
  const loading = new Map();
  return (view) => {
    const name = addressOf(view).search;
    if (!loading.has(name)) loading.set(name, api.genes(view, signal));
    return loading.get(name);
  };
}

async function overview(view, page, signal) {
  const leaders = { ...DEFAULTS, domain: view.domain, limit: view.limit };
  const [insights, first] = await Promise.all([
    api.insights(view.domain, signal).catch((error) => { throw ofDomain(error, view.domain); }),
    page(leaders),
  ]);
  if (!signal.aborted) showOverview(insights, first.data);
}

function ofDomain(error, domain) {
  return Object.assign(error, error.kind === "missing" ? { kind: "domain", domain } : {});
}

async function ranking(view, page, signal) {
  const found = await page(view);
  if (signal.aborted) return;
  rememberDomains(found.data);
  // For an unknown domain, the failed insights show a message instead.
  if (found.total === 0 && view.domain && !view.fidelity) return;
  showTable(found, view, (gene) => openPhenotype(gene, showRateLimit));
}

function reportError(error, view) {
  const failure = error instanceof api.RequestError ? error : new api.RequestError("internal");
  if (!(error instanceof api.RequestError)) console.error(error);
  showError(failure, () => show(view, { reload: $("ranking").hidden }), goToDomain);
  if (failure.kind === "key") {
    removeKey();
    askForKey({ keepText: true });
  }
  announce("");
}

// ---------------------------------------------------------------- the rest of the page

function updateControls(view) {
  $("domain").value = view.domain;
  for (const name of ["fidelity", "sort", "limit"]) $(name).value = view[name];
  $("title").textContent = inert(view.domain) || "The arena";
  document.title = `${inert(view.domain) || "Arena"} · Gene Registry`;
  $("ranking-title").textContent = view.domain ? "Ranking" : "Best genes of all domains";
  keyLine();
}

function keyLine() {
  const has = Boolean(key());
  $("key-line").hidden = !has;
  $("domain-form").hidden = !has;
  $("key-form").hidden = has;
  if (has) $("key-shown").textContent = `Key ${abbreviate(key())}`;
}

function askForKey({ keepText = false } = {}) {
  activeRequest?.abort();
  api.forgetRateLimit();
  current = null;
  ["overview", "ranking"].forEach((id) => { $(id).hidden = true; });
  keyLine();
  if (!keepText) $("key").value = "";
  $("key").toggleAttribute("aria-invalid", keepText);
  if (keepText) $("key").setAttribute("aria-invalid", "true");
  $("key").focus({ preventScroll: true });
}

function showRateLimit() {
  const limits = api.rateLimit;
  $("rate-limit").textContent = limits ? `${count(limits.remaining)} of ${count(limits.limit)} requests remain this minute` : "";
}

function suggestions() {
  const seen = domainsSeen();
  $("domains").replaceChildren(...seen.map((name) => make("option", { value: name })));
  const here = $("domain").value;
  $("chips").replaceChildren(...seen.slice(0, CHIPS).map((name) => make("button", {
    type: "button", class: "chip", "aria-pressed": String(name === here), onclick: () => goToDomain(name),
  }, name)));
  $("chips").hidden = seen.length === 0;
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = $("key").value.trim();
  if (!canBeKey(value)) return reportError(new api.RequestError("key"), viewOf(new URL(location.href)));
  storeKey(value);
  $("key").value = "";
  $("main").focus({ preventScroll: true });
  show(viewOf(new URL(location.href)), { reload: true });
});

$("key-change").addEventListener("click", () => {
  removeKey();
  clearError();
  askForKey();
});

$("domain-form").addEventListener("submit", (event) => {
  event.preventDefault();
  goToDomain($("domain").value.trim());
});

$("filters").addEventListener("change", (event) => go({ [event.target.name]: event.target.value, offset: "0" }));
$("filters").addEventListener("submit", (event) => event.preventDefault());

for (const id of ["previous", "next"]) {
  $(id).addEventListener("click", async () => {
    await go({ offset: $(id).dataset.offset });
    $("ranking-title").scrollIntoView({ block: "start" });
  });
}

addEventListener("popstate", () => show(viewOf(new URL(location.href))));

suggestions();
show(viewOf(new URL(location.href)), { reload: true });
