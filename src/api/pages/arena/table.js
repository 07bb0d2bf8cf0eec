// The ranking: one page of genes, with links to the previous and next page.

import { $, announce, count, decimal, inert, make } from "./dom.js";
import { sparkline } from "./plots.js";

const TONES = { Native: "good", Hybrid: "accent", Wrapped: "" };
const SORTED_BY = { fitness: "fitness", reputation: "reputation", downloads: "downloads" };

export function showTable(page, view, open) {
  const { data, total, offset } = page;
  $("rows").replaceChildren(...data.map((gene, index) => row(gene, offset + index + 1, view, open)));
  if (!data.length) {
    const text = total ? "This page is empty: it is past the end of the ranking." : "No gene matches these filters.";
    $("rows").append(make("tr", { role: "row" }, make("td", { role: "cell", colspan: 8, class: "empty soft" }, text)));
  }
  $("genes").classList.toggle("all-domains", !view.domain);
  for (const head of document.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === view.sort) head.setAttribute("aria-sort", "descending");
    else head.removeAttribute("aria-sort");
  }
  const where = view.domain ? `of the domain ${inert(view.domain)}` : "of all domains";
  $("caption").textContent = `Genes ${where}${view.fidelity ? `, ${view.fidelity} only` : ""}, by ${SORTED_BY[view.sort]}, best first`;
  const range = data.length ? `${count(offset + 1)}–${count(offset + data.length)} of ${count(total)}` : `0 of ${count(total)}`;
  $("range").textContent = range;
  // A focused button that is about to be disabled passes the focus on.
  for (const [id, target] of [["previous", page.previous], ["next", page.next]]) {
    const button = $(id);
    if (target === null && document.activeElement === button) $("ranking-title").focus();
    button.disabled = target === null;
    button.dataset.offset = target ?? "";
  }
  $("ranking").hidden = false;
  announce(`Genes ${range} shown.`);
}

function row(gene, rank, view, open) {
  const name = make("button", {
    type: "button", class: "gene", "aria-haspopup": "dialog",
    onclick: () => open(gene),
  }, gene.name || "(unnamed)");
  return make("tr", { role: "row" },
    cell("#", count(rank), "number rank"),
    make("th", { role: "rowheader", scope: "row" }, name,
      gene.description && make("span", { class: "description" }, gene.description),
      make("span", { class: "by" }, gene.owner ? `by ${gene.owner}` : "", !view.domain && gene.domain ? ` in ${gene.domain}` : "")),
    cell("Fidelity", make("span", { class: `badge ${TONES[gene.fidelity] ?? ""}` }, gene.fidelity)),
    cell("Fitness", decimal(gene.fitness_score), "number strong"),
    cell("History", sparkline(gene.arena_history), "history"),
    cell("Reputation", decimal(gene.reputation_score), "number"),
    cell("Downloads", count(gene.downloads), "number"),
    cell("Rank in domain", gene.arena_rank ? count(gene.arena_rank) : "unranked", "number"));
}

/** `data-label` labels the value when a narrow screen shows rows as cards; the roles keep it a table
    for screen readers. */
const cell = (label, content, classes = "") =>
  make("td", { role: "cell", "data-label": label, class: classes }, content);
