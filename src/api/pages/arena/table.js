// The ranking: one page of genes, with links to the previous and next page.

import { $, announce, count, decimal, inert, make } from "../assets/dom.js";
import { sparkline } from "./plots.js";
import { addressOf, DEFAULTS, geneAddress, ofOwner, opensElsewhere, viewLink } from "./view.js";

export const TONES = { Native: "good", Hybrid: "accent", Wrapped: "" };
const SORTED_BY = { fitness: "fitness", reputation: "reputation", downloads: "downloads" };

export function showTable(page, view, go) {
  const { data, total, offset } = page;
  const ranked = data.map((gene, index) => ({ gene, rank: offset + index + 1 }));
  const listed = ranked.filter(({ gene }) => !view.owner || gene.owner === view.owner);
  $("rows").replaceChildren(...listed.map(({ gene, rank }) => row(gene, rank, view, go)));
  if (!listed.length) {
    const text = data.length ? "None of the genes on this page is by this owner."
      : total ? "This page is empty: it is past the end of the ranking." : "No gene matches these filters.";
    $("rows").append(make("tr", { role: "row" }, make("td", { role: "cell", colspan: 8, class: "empty soft" }, text)));
  }
  $("genes").classList.toggle("all-domains", !view.domain);
  for (const head of document.querySelectorAll("th[data-sort]")) sortedBy(head, view, go);
  const where = view.domain ? `of the domain ${inert(view.domain)}` : "of all domains";
  const range = data.length ? `${count(offset + 1)}–${count(offset + data.length)} of ${count(total)}` : `0 of ${count(total)}`;
  $("caption").textContent = `${range} genes ${where}${view.fidelity ? `, ${view.fidelity} only` : ""}, by ${SORTED_BY[view.sort]}, best first`;
  $("range").textContent = range;
  $("owner").hidden = !view.owner;
  $("owner").replaceChildren(`${count(listed.length)} of the genes ${range} are by ${inert(view.owner)}. The API cannot search by owner: look at further pages for more, or `,
    viewLink({ ...view, owner: DEFAULTS.owner }, go, {}, "show all owners"), ".");
  for (const [id, target] of [["previous", page.previous], ["next", page.next]]) pageLink(id, target, view, go);
  $("ranking").hidden = false;
  announce(`Genes ${range} shown.`);
}

/** The head of a column by which the ranking can be sorted. */
function sortedBy(head, view, go) {
  const sort = head.dataset.sort;
  if (sort === view.sort) head.setAttribute("aria-sort", "descending");
  else head.removeAttribute("aria-sort");
  const name = head.dataset.name ??= head.textContent;
  head.replaceChildren(viewLink({ ...view, sort, offset: DEFAULTS.offset }, go, {}, name));
}

/** Without a target, a link that leads nowhere. One that has the focus passes it on. */
function pageLink(id, target, view, go) {
  const link = $(id);
  if (target === null) {
    if (document.activeElement === link) $("ranking-title").focus();
    link.removeAttribute("href");
    link.setAttribute("aria-disabled", "true");
    link.onclick = null;
    return;
  }
  link.removeAttribute("aria-disabled");
  const other = { ...view, offset: String(target) };
  link.href = addressOf(other).href;
  link.onclick = async (event) => {
    if (opensElsewhere(event)) return;
    event.preventDefault();
    await go(other);
    $("ranking-title").scrollIntoView({ block: "start" });
  };
}

function row(gene, rank, view, go) {
  const name = make("a", { class: "gene", href: geneAddress(gene.id).href }, gene.name || "(unnamed)");
  const owner = gene.owner && ["by ", viewLink(ofOwner(view.domain, gene.owner), go, {}, gene.owner)];
  const domain = !view.domain && gene.domain
    && [" in ", viewLink({ ...DEFAULTS, domain: gene.domain }, go, {}, gene.domain)];
  return make("tr", { role: "row" },
    cell("#", count(rank), "number rank"),
    make("th", { role: "rowheader", scope: "row" }, name,
      gene.description && make("span", { class: "description" }, gene.description),
      make("span", { class: "by" }, owner, domain)),
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
