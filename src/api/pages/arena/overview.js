// A domain's metrics with explanations, its top genes, and a plot of their history.

import { $, count, decimal, make, percent } from "../assets/dom.js";
import { drawHistory, historyTable, historyOf } from "./plots.js";
import { geneAddress } from "./view.js";

const TRENDS = {
  rising: ["↗", "rising", "good"],
  stable: ["→", "stable", ""],
  declining: ["↘", "declining", "warn"],
};

let shown = null;

export function showOverview(insights, genes) {
  $("numbers").replaceChildren(...numbers(insights));
  const series = leaders(insights.top_genes, genes);
  $("top").replaceChildren(...series.map(leader));
  if (!series.length) $("top").append(make("li", { class: "soft" }, "No gene of this domain has been evaluated yet."));
  shown = series.filter((one) => one.history.length);
  drawHistory($("plot"), shown);
  $("plot-table").replaceChildren(historyTable(shown));
  $("overview").hidden = false;
}

// Redrawn for the available width, so that text keeps its size.
new ResizeObserver(() => { if (shown) drawHistory($("plot"), shown); }).observe($("plot"));

function numbers(insights) {
  const { gene_count: genes, shannon_diversity: diversity, turnover_rate: turnover } = insights;
  const max = Math.log(genes);
  const evenness = max > 0 ? Math.min(1, diversity / max) : 0;
  return [
    number("Diversity", decimal(diversity, 2), meter(evenness, "Diversity relative to the maximum"),
      max > 0
        ? `As diverse as ${decimal(Math.exp(diversity), 1)} genes of equal fitness; there are ${count(genes)}. Shannon entropy of the shares of fitness, ${percent(evenness)} of its maximum.`
        : "Shannon entropy H′ of the genes' shares of fitness. With one gene there is no competition yet."),
    number("Turnover", percent(turnover), meter(turnover, "Turnover"),
      turnover === 0
        ? "None of the top 5 of thirty days ago has been replaced since."
        : `Of the top 5 of thirty days ago, ${percent(turnover)} are no longer among today's top 5.`),
    number("Average fitness", decimal(insights.avg_fitness), null,
      "The average of the evaluated genes. Fitness may exceed 1."),
    number("Genes", count(genes), null, "Published genes of this domain."),
    number("Evaluations", count(insights.total_arena_evaluations), null,
      "Number of evaluations of these genes in the arena."),
  ];
}

function number(name, value, bar, meaning) {
  return make("div", { class: "card" },
    make("dt", {}, name),
    make("dd", { class: "value" }, value, bar),
    make("dd", { class: "meaning" }, meaning));
}

const meter = (value, label) =>
  make("meter", { min: 0, max: 1, value: value.toFixed(3), "aria-label": label });

/** Names need not be unique, so each gene of the page is used once. */
function leaders(top, genes) {
  const unused = [...genes];
  return top.map((gene) => {
    const index = unused.findIndex((one) => one.name === gene.name && one.fitness_score === gene.fitness);
    const found = index < 0 ? null : unused.splice(index, 1)[0];
    return { ...gene, id: found?.id ?? null, history: historyOf(found?.arena_history ?? []) };
  });
}

function leader(gene, index) {
  const [arrow, word, tone] = TRENDS[gene.trend] ?? TRENDS.stable;
  return make("li", {},
    make("span", { class: `swatch s${index + 1}`, "aria-hidden": "true" }, String(index + 1)),
    make("span", { class: "name" }, gene.id ? make("a", { href: geneAddress(gene.id).href }, gene.name) : gene.name),
    make("span", { class: "fitness" }, decimal(gene.fitness)),
    make("span", { class: `badge ${tone}` }, make("span", { "aria-hidden": "true" }, arrow), word));
}
