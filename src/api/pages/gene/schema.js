// Input or output of a gene: a table of its fields, and the schema itself.

import { make } from "../assets/dom.js";

/** Deeper fields are in the schema only. */
const MAX_DEPTH = 6;
const HEADS = ["Field", "Type", "Required", "Default", "Allowed", "Description"];

export function showSchema(container, title, schema) {
  const fields = fieldsOf(schema, "", 0);
  container.replaceChildren(
    fields.length ? table(title, fields) : make("p", { class: "soft" }, "No fields are declared."),
    make("details", {}, make("summary", {}, "As a schema"),
      make("pre", { tabindex: 0, "aria-label": `${title}, as a schema` },
        make("code", {}, JSON.stringify(schema, null, 2)))));
}

function table(title, fields) {
  const head = HEADS.map((name) => make("th", { role: "columnheader", scope: "col" }, name));
  const rows = fields.map(({ path, depth, schema, required }) => make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row", class: `depth-${depth}` }, make("code", { class: "property" }, path)),
    cell("Type", make("span", { class: "badge" }, typeName(schema))),
    cell("Required", required ? make("span", { class: "badge warn" }, "required") : "no"),
    cell("Default", "default" in schema ? make("code", {}, JSON.stringify(schema.default)) : ""),
    cell("Allowed", limits(allowed(schema))),
    cell("Description", typeof schema.description === "string" ? schema.description : "")));
  return make("div", { class: "card flush scroll-x", tabindex: 0, role: "region", "aria-label": `Fields of the ${title.toLowerCase()}` },
    // The roles keep it a table for screen readers when a narrow screen shows rows as cards.
    make("table", { role: "table", class: "fields" },
      make("caption", { class: "visually-hidden" }, `Fields of the ${title.toLowerCase()}`),
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, head)), make("tbody", { role: "rowgroup" }, rows)));
}

const cell = (label, content) => make("td", { role: "cell", "data-label": label }, content);

const limits = (found) => (found.length ? make("div", {}, found.map((one) => make("div", {}, one))) : "");

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The fields of a schema, each before those inside it. */
function fieldsOf(schema, prefix, depth) {
  if (!isObject(schema) || depth > MAX_DEPTH) return [];
  if (isObject(schema.items)) return fieldsOf(schema.items, `${prefix}[]`, depth);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(isObject(schema.properties) ? schema.properties : {}).flatMap(([name, value]) => {
    const path = prefix ? `${prefix}.${name}` : name;
    const inner = isObject(value) ? value : {};
    return [{ path, depth, schema: inner, required: required.has(name) }, ...fieldsOf(inner, path, depth + 1)];
  });
}

function typeName(schema) {
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : String(schema.type ?? "anything");
  return type === "array" && schema.items?.type ? `list of ${String(schema.items.type)}` : type;
}

/** What a value must fulfil besides its type. */
function allowed(schema) {
  const json = (value) => JSON.stringify(value);
  const found = [];
  if (Array.isArray(schema.enum)) found.push(`one of ${schema.enum.map(json).join(", ")}`);
  if ("const" in schema) found.push(json(schema.const));
  for (const [name, words] of [
    ["minimum", "at least"], ["maximum", "at most"], ["exclusiveMinimum", "more than"], ["exclusiveMaximum", "less than"],
    ["multipleOf", "a multiple of"], ["minLength", "characters: at least"], ["maxLength", "characters: at most"],
    ["minItems", "elements: at least"], ["maxItems", "elements: at most"], ["pattern", "pattern"], ["format", "format"],
  ]) {
    const value = schema[name];
    if (["number", "string"].includes(typeof value)) found.push(`${words} ${value}`);
  }
  return found;
}
