// The arena. It shows what its address says. Opening a domain takes two requests (insights and
// ranking), or three if the plot needs another page of the ranking.

import * as api from "./api.js";
import { $, announce, inert } from "../assets/dom.js";
import { setUpDomains, showFinder } from "./domains.js";
import { clearError, showError } from "./errors.js";
import { askForKey, setUpKeyForm, showKey } from "./key_form.js";
import { showOverview } from "./overview.js";
import { domainsSeen, rememberPage } from "./seen.js";
import { showTable } from "./table.js";
import { addressOf, DEFAULTS, viewLink, viewOf } from "./view.js";
import { dropKey, key } from "../assets/key.js";

/** Maximum number of chips; the field suggests all domains. */
const CHIPS = 12;

let current = null;
let activeRequest = null;

const shown = () => viewOf(new URL(location.href)).view;

function go(view) {
  history.pushState(null, "", addressOf(view));
  return show(view);
}

const goToDomain = (domain) => go({ ...DEFAULTS, domain });

/** Shows what the address says, after it has changed or when the page is opened. */
function open({ reload = false } = {}) {
  const { view, wrong } = viewOf(new URL(location.href));
  $("notice").hidden = wrong.length === 0;
  if (wrong.length) {
    $("notice").textContent = `The address has values that this page does not offer, for: ${wrong.join(", ")}. The defaults are shown instead.`;
    history.replaceState(null, "", addressOf(view));
  }
  return show(view, { reload });
}

async function show(view, { reload = false } = {}) {
  updateControls(view);
  clearError();
  if (!key()) return withoutKey();
  activeRequest?.abort();
  const request = activeRequest = new AbortController();
  const { signal } = request;
  const replacesAll = reload || current?.domain !== view.domain;
  if (replacesAll) hideContent();
  announce("Loading …");
  document.body.setAttribute("aria-busy", "true");
  try {
    const page = pageLoader(signal);
    if (replacesAll && view.domain) await Promise.all([overview(view, page, signal), ranking(view, page, signal)]);
    else await ranking(view, page, signal);
    current = view;
  } catch (error) {
    if (signal.aborted) return;
    request.abort();
    if (replacesAll) current = null;
    reportError(error, view);
  } finally {
    if (activeRequest === request) document.body.removeAttribute("aria-busy");
    showKey();
    suggestions();
  }
}

const hideContent = () => ["overview", "ranking"].forEach((id) => { $(id).hidden = true; });

/** Loads each page of genes once, even if both overview and ranking need it. */
function pageLoader(signal) {
  const loading = new Map();
  return (view) => {
    const name = addressOf({ ...view, owner: DEFAULTS.owner }).search;
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
  rememberPage(found.data);
  // For an unknown domain, the failed insights show a message instead.
  if (found.total === 0 && view.domain && !view.fidelity) return;
  showTable(found, view, go);
}

function reportError(error, view) {
  const failure = error instanceof api.RequestError ? error : new api.RequestError("internal");
  if (!(error instanceof api.RequestError)) console.error(error);
  showError(failure, () => show(view, { reload: $("ranking").hidden }), goToDomain);
  if (failure.kind === "key") {
    dropKey();
    withoutKey({ isWrong: true });
  }
  announce("");
}

// ---------------------------------------------------------------- the rest of the page

function updateControls(view) {
  $("domain").value = view.domain;
  for (const name of ["fidelity", "sort", "limit"]) $(name).value = view[name];
  $("title").textContent = inert(view.domain) || "The arena";
  $("kind").hidden = !view.domain;
  document.title = `${inert(view.domain) || "Arena"} · Gene Registry`;
  $("ranking-title").textContent = view.domain ? "Ranking" : "Best genes of all domains";
  $("domain-form").hidden = !key();
  showKey();
}

function withoutKey({ isWrong = false } = {}) {
  activeRequest?.abort();
  current = null;
  hideContent();
  $("domain-form").hidden = true;
  askForKey({ isWrong });
}

function suggestions() {
  const seen = domainsSeen();
  showFinder();
  const here = $("domain").value;
  const names = seen.filter((name, index) => index < CHIPS || name === here);
  const all = viewLink(DEFAULTS, go, { class: "chip", "aria-current": !here && "page" }, "All domains");
  $("chips").replaceChildren(all, ...names.map((name) =>
    viewLink({ ...DEFAULTS, domain: name }, go, { class: "chip", "aria-current": name === here && "page" }, name)));
  $("chips").hidden = seen.length === 0;
}

setUpKeyForm({
  start: () => open({ reload: true }),
  refuse: () => reportError(new api.RequestError("key"), shown()),
  end: () => { clearError(); withoutKey(); },
});

setUpDomains((domain, { isSame = false } = {}) => {
  if (!isSame) return goToDomain(domain);
  showKey();
  suggestions();
});

$("filters").addEventListener("change", (event) => go({ ...shown(), [event.target.name]: event.target.value, offset: "0" }));
$("filters").addEventListener("submit", (event) => event.preventDefault());

addEventListener("popstate", () => open());

suggestions();
open({ reload: true });
