// A dialog with one gene's phenotype: inputs, outputs and how to install it.

import { phenotype, RequestError } from "./api.js";
import { $, decimal, make } from "./dom.js";
import { message, retry } from "./errors.js";

const dialog = $("phenotype");
let activeRequest = null;

dialog.addEventListener("close", () => activeRequest?.abort());
// A click outside the dialog closes it too.
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

/** Opens the dialog for a gene of the ranking; calls `updateRateLimit` after the request. */
export async function openPhenotype(gene, updateRateLimit) {
  activeRequest?.abort();
  activeRequest = new AbortController();
  frame(gene, make("p", { class: "soft", role: "status" }, "Loading …"));
  if (!dialog.open) dialog.showModal();
  try {
    const found = await phenotype(gene.id, activeRequest.signal);
    frame(gene, body(found));
  } catch (error) {
    if (error.name === "AbortError") return;
    const failure = error instanceof RequestError ? error : new RequestError("internal");
    const repeat = () => openPhenotype(gene, updateRateLimit);
    frame(gene, make("div", { class: "error", role: "alert", "data-kind": failure.kind },
      ...message(failure), failure.kind !== "key" && retry(failure, repeat)));
  } finally {
    updateRateLimit();
  }
}

function frame(gene, content) {
  const close = make("button", { type: "button", class: "button quiet slim", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(
    make("header", {}, make("h2", { id: "phenotype-title" }, gene.name || "(unnamed)"), close),
    gene.description && make("p", { class: "soft" }, gene.description),
    content);
  if (dialog.open) close.focus();
}

function body(found) {
  const { compatibility: needs } = found;
  return make("div", {},
    make("dl", { class: "facts" },
      fact("Domain", found.domain || "none"), fact("Fidelity", found.fidelity),
      fact("Fitness", decimal(found.fitness_score)), fact("Reputation", decimal(found.reputation_score)),
      fact("Playground", needs.min_playground_version === "0.0.0" ? "any version" : `${needs.min_playground_version} or later`),
      fact("Runs at", needs.required_fidelity)),
    make("h3", {}, "Install"), make("pre", { tabindex: 0, "aria-label": "Install command" }, make("code", {}, found.install_command)),
    side("Input", found.phenotype.input), side("Output", found.phenotype.output),
    make("p", { class: "small soft" }, "Id ", make("code", {}, found.id)));
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));

function side(title, schema) {
  const properties = schema.properties && typeof schema.properties === "object" ? Object.entries(schema.properties) : [];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return make("section", {}, make("h3", {}, title),
    properties.length
      ? make("ul", { class: "properties" }, properties.map(([name, value]) =>
        make("li", {}, make("code", { class: "property" }, name), " ",
          make("span", { class: "badge" }, typeName(value)), " ",
          required.has(name) && make("span", { class: "badge warn" }, "required"),
          typeof value?.description === "string" && make("span", { class: "soft" }, value.description))))
      : make("p", { class: "soft" }, "No properties are declared."),
    make("details", {}, make("summary", {}, "As a schema"),
      make("pre", { tabindex: 0, "aria-label": `${title}, as a schema` }, make("code", {}, JSON.stringify(schema, null, 2)))));
}

function typeName(schema) {
  const type = Array.isArray(schema?.type) ? schema.type.join(" or ") : String(schema?.type ?? "anything");
  return type === "array" && schema.items?.type ? `list of ${schema.items.type}` : type;
}
