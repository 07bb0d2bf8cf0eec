// A domain's numbers with what they mean, its top genes, and their history as a plot.

import { $, count, decimal, make, percent } from "./dom.js";
import { drawHistory, historyTable } from "./plots.js";

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

// Drawn for the width there is, so that letters keep their size.
new ResizeObserver(() => { if (shown) drawHistory($("plot"), shown); }).observe($("plot"));

function numbers(insights) {
  const { gene_count: genes, shannon_diversity: diversity, turnover_rate: turnover } = insights;
  const most = Math.log(genes);
  const evenness = most > 0 ? Math.min(1, diversity / most) : 0;
  return [
    number("Diversity", decimal(diversity, 2), meter(evenness, "Diversity against the most there can be"),
      most > 0
        ? `Shannon entropy H′ of the genes' shares of fitness: ${percent(evenness)} of the most that ${count(genes)} genes can have (${decimal(most, 2)}). ${evenness > 0.9 ? "Strength is spread widely: a healthy contest." : "A few genes hold most of the fitness."}`
        : "Shannon entropy H′ of the genes' shares of fitness. With one gene there is no contest yet."),
    number("Turnover", percent(turnover), meter(turnover, "Turnover"),
      turnover === 0
        ? "None of the top 5 of thirty days ago has been replaced since."
        : `Of the top 5 of thirty days ago, ${percent(turnover)} are no longer among today's top 5.`),
    number("Average fitness", decimal(insights.avg_fitness), null,
      "The mean over the genes that have been evaluated. Fitness may exceed 1."),
    number("Genes", count(genes), null, "Published genes of this domain."),
    number("Evaluations", count(insights.total_arena_evaluations), null,
      "Times that these genes have been tried in the arena, all in all."),
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

/** Names need not be unique, so each gene of the page is taken once. */
function leaders(top, genes) {
  const left = [...genes];
  return top.map((gene) => {
    const at = left.findIndex((one) => one.name === gene.name && one.fitness_score === gene.fitness);
    const found = at < 0 ? null : left.splice(at, 1)[0];
    const history = (found?.arena_history ?? [])
      .map((entry) => ({ time: Date.parse(entry.evaluated_at), fitness: entry.fitness_value, calls: entry.total_calls }))
      .reverse();
    return { ...gene, history };
  });
}

function leader(gene, index) {
  const [arrow, word, tone] = TRENDS[gene.trend] ?? TRENDS.stable;
  return make("li", {},
    make("span", { class: `swatch s${index + 1}`, "aria-hidden": "true" }, String(index + 1)),
    make("span", { class: "name" }, gene.name),
    make("span", { class: "fitness" }, decimal(gene.fitness)),
    make("span", { class: `badge ${tone}` }, make("span", { "aria-hidden": "true" }, arrow), word));
}
