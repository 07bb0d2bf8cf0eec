// A client of the public API. Every call counts against the visitor's key.

import { key, keyIsAccepted, root } from "../assets/key.js";

/** A failed request; `errors.js` has a message for each `kind`. */
export class RequestError extends Error {
  constructor(kind, { message = "", seconds = 0, limit = null } = {}) {
    super(message || kind);
    this.kind = kind;
    this.until = seconds > 0 ? Date.now() + seconds * 1000 : 0;
    this.limit = limit;
  }
}

/** The key's window according to the last response: `limit`, `remaining`, `endsAt`. */
export let rateLimit = null;

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
  const url = new URL(`v1/${path}`, root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null) url.searchParams.set(name, value);
  }
  let response;
  try {
    response = await fetch(url, { headers: { "X-API-Key": key() }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("network");
  }
  updateRateLimit(response.headers);
  const body = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (response.ok && body) {
    keyIsAccepted();
    return { body, link: response.headers.get("Link") ?? "" };
  }
  const limit = number(response.headers.get("X-RateLimit-Limit"));
  const kind = KINDS[body?.code] ?? "internal";
  throw new RequestError(kind === "limit" && limit === 0 ? "blocked" : kind, {
    message: body?.error,
    seconds: Number(response.headers.get("Retry-After") ?? 0),
    limit,
  });
}

const number = (text) => (text === null ? null : Number(text));

function updateRateLimit(headers) {
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
    number(headers.get(`X-RateLimit-${name}`)));
  if (limit === null) return;
  const endsAt = Date.now() + reset * 1000;
  // Responses to simultaneous requests may arrive in any order.
  const sameWindow = rateLimit && rateLimit.limit === limit && Math.abs(rateLimit.endsAt - endsAt) < 2000;
  rateLimit = { limit, remaining: sameWindow ? Math.min(remaining, rateLimit.remaining) : remaining, endsAt };
}

export const forgetRateLimit = () => { rateLimit = null; };

/** A page of genes of all owners. */
export async function genes({ owner: _, ...query }, signal) {
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
    if (rel === relation) return Number(new URL(target, root).searchParams.get("offset") ?? 0);
  }
  return null;
}
