// A gene's page: its phenotype, and what a search of its domain says of it. The latter is at hand if a
// ranking has just shown the gene; otherwise the first page of the search is loaded, and further pages
// on demand.

import * as api from "./api.js";
import { $, announce, count, decimal, inert, make } from "../assets/dom.js";
import { clearError, showError } from "./errors.js";
import { askForKey, setUpKeyForm, showKey } from "./key_form.js";
import { drawHistory, historyOf, historyTable } from "./plots.js";
import { showSchema } from "./schema.js";
import { geneSeen } from "./seen.js";
import { TONES } from "./table.js";
import { addressOf, ofOwner } from "./view.js";
import { copy, showCopied } from "../assets/copy.js";
import { dropKey, key, root } from "../assets/key.js";

const PAGE = 50;

let activeRequest = null;

function id() {
  const segment = location.pathname.slice(root.pathname.length).split("/")[1] ?? "";
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

async function open() {
  clearError();
  if (!key()) return withoutKey();
  activeRequest?.abort();
  activeRequest = new AbortController();
  const { signal } = activeRequest;
  showKey();
  announce("Loading …");
  document.body.setAttribute("aria-busy", "true");
  try {
    const gene = await api.phenotype(id(), signal);
    showGene(gene);
    await showStanding(gene, signal);
    announce(`${gene.name} shown.`);
  } catch (error) {
    if (!signal.aborted) reportError(error);
  } finally {
    if (!signal.aborted) document.body.removeAttribute("aria-busy");
    showKey();
  }
}

function reportError(error, repeat = open) {
  const failure = error instanceof api.RequestError ? error : new api.RequestError("internal");
  if (!(error instanceof api.RequestError)) console.error(error);
  showError(failure, repeat);
  if (failure.kind === "key") {
    dropKey();
    withoutKey({ isWrong: true });
  }
  announce("");
}

function withoutKey({ isWrong = false } = {}) {
  activeRequest?.abort();
  $("gene").hidden = true;
  askForKey({ isWrong });
}

function showGene(gene) {
  const name = gene.name || "(unnamed)";
  document.title = `${inert(name)} · Gene Registry`;
  $("title").textContent = inert(name);
  $("domain").replaceChildren(...(gene.domain
    ? ["Domain ", make("a", { href: addressOf({ domain: gene.domain }).href }, gene.domain)] : []));
  const { min_playground_version: playground, required_fidelity: fidelity } = gene.compatibility;
  $("facts").replaceChildren(
    fact("Fidelity", make("span", { class: `badge ${TONES[gene.fidelity] ?? ""}` }, gene.fidelity)),
    fact("Fitness", decimal(gene.fitness_score)), fact("Reputation", decimal(gene.reputation_score)),
    fact("Playground", playground === "0.0.0" ? "any version" : `${playground} or later`),
    fact("Runs at", fidelity), fact("Id", make("code", {}, gene.id)));
  $("install").textContent = inert(gene.install_command);
  showSchema($("input"), "Input", gene.phenotype.input);
  showSchema($("output"), "Output", gene.phenotype.output);
  $("gene").hidden = false;
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));

// ---------------------------------------------------------------- in the arena

async function showStanding(gene, signal) {
  const seen = geneSeen(gene.id);
  if (seen) return showSummary(seen);
  $("description").textContent = "";
  await search(gene, 0, signal);
}

/** Looks for the gene in a page of the search of its domain. */
async function search(gene, offset, signal) {
  const content = $("standing-content");
  content.replaceChildren(make("p", { class: "soft" }, "Loading …"));
  let page;
  try {
    page = await api.genes({ domain: gene.domain, fidelity: gene.fidelity, limit: PAGE, offset }, signal);
  } catch (error) {
    content.replaceChildren(make("p", { class: "soft" }, "Could not be loaded."));
    throw error;
  }
  const found = page.data.find((one) => one.id === gene.id);
  if (found) return showSummary(found);
  if (page.next === null) {
    content.replaceChildren(make("p", { class: "soft" }, "The search of its domain does not have it."));
    return;
  }
  const looked = offset + page.data.length;
  content.replaceChildren(
    make("p", {}, `It is not among the best ${count(looked)} of ${count(page.total)} ${inert(gene.fidelity)} genes of its domain.`),
    make("p", { class: "retry" }, make("button", { type: "button", class: "button slim", onclick: () => further(gene, page.next) },
      `Look at the next ${PAGE}`), make("span", { class: "small soft" }, "counts as one request")));
}

async function further(gene, offset) {
  clearError();
  const { signal } = activeRequest;
  try {
    await search(gene, offset, signal);
  } catch (error) {
    if (!signal.aborted) reportError(error, () => further(gene, offset));
  } finally {
    showKey();
  }
}

function showSummary(gene) {
  $("description").textContent = inert(gene.description);
  const history = historyOf(gene.arena_history);
  const plot = make("div", { class: "plot" });
  $("standing-content").replaceChildren(
    make("dl", { class: "facts" },
      fact("Rank in its domain", gene.arena_rank ? count(gene.arena_rank) : "unranked"),
      fact("Owner", gene.owner ? make("a", { href: addressOf(ofOwner(gene.domain, gene.owner)).href }, gene.owner) : "none"), fact("Downloads", count(gene.downloads))),
    history.length ? make("p", { class: "small soft" }, "Fitness over time; each point is one evaluation, of the latest ten.") : "",
    plot,
    history.length ? make("details", {}, make("summary", {}, "Show as a table"),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evaluations" },
        historyTable([{ name: gene.name, history }]))) : "");
  const draw = () => drawHistory(plot, history.length ? [{ name: gene.name, history }] : []);
  // Redrawn for the available width, so that text keeps its size.
  new ResizeObserver(draw).observe(plot);
}

// ---------------------------------------------------------------- the rest of the page

$("copy").addEventListener("click", async () => {
  showCopied($("copy"), await copy($("install")), "the install command");
});

setUpKeyForm({
  start: open,
  refuse: () => reportError(new api.RequestError("key")),
  end: () => { clearError(); withoutKey(); },
});

open();
