// A client of the public API. Every call counts against the visitor's key.

import { key } from "./key.js";

/** A failed request; `trouble.js` has a message for each `kind`. */
export class Trouble extends Error {
  constructor(kind, { message = "", seconds = 0, limit = null } = {}) {
    super(message || kind);
    this.kind = kind;
    this.until = seconds > 0 ? Date.now() + seconds * 1000 : 0;
    this.limit = limit;
  }
}

/** The key's window according to the last response: `limit`, `remaining`, `endsAt`. */
export let budget = null;

const KINDS = {
  UNAUTHORIZED: "key",
  RATE_LIMITED: "limit",
  DB_ERROR: "database",
  UNAVAILABLE: "busy",
  NOT_FOUND: "missing",
  MISSING_PARAM: "query",
  INVALID_ID: "query",
};

async function request(path, query, signal) {
  const url = new URL(`v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null) url.searchParams.set(name, value);
  }
  let response;
  try {
    response = await fetch(url, { headers: { "X-API-Key": key() }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("network");
  }
  updateBudget(response.headers);
  const body = await response.json().catch(() => null);
  if (response.ok && body) return { body, link: response.headers.get("Link") ?? "" };
  throw new Trouble(KINDS[body?.code] ?? "fault", {
    message: body?.error,
    seconds: Number(response.headers.get("Retry-After") ?? 0),
    limit: number(response.headers.get("X-RateLimit-Limit")),
  });
}

const number = (text) => (text === null ? null : Number(text));

function updateBudget(headers) {
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
    number(headers.get(`X-RateLimit-${name}`)));
  if (limit === null) return;
  const endsAt = Date.now() + reset * 1000;
  // Responses to simultaneous requests may arrive in any order.
  const sameWindow = budget && budget.limit === limit && Math.abs(budget.endsAt - endsAt) < 2000;
  budget = { limit, remaining: sameWindow ? Math.min(remaining, budget.remaining) : remaining, endsAt };
}

export const forgetBudget = () => { budget = null; };

export async function genes(query, signal) {
  const { body, link } = await request("genes", query, signal);
  return { ...body, next: linked(link, "next"), previous: linked(link, "prev") };
}

export const insights = async (domain, signal) =>
  (await request("arena/insights", { domain }, signal)).body;

export const phenotype = async (id, signal) =>
  (await request(`genes/${encodeURIComponent(id)}/phenotype`, {}, signal)).body;

/** The offset of the page to which `Link` leads, or `null`. */
function linked(link, relation) {
  for (const [, target, rel] of link.matchAll(/<([^>]*)>;\s*rel="?(\w+)"?/g)) {
    if (rel === relation) return Number(new URL(target, document.baseURI).searchParams.get("offset") ?? 0);
  }
  return null;
}
