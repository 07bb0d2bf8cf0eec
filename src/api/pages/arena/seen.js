// What this tab has loaded: the names of domains, and the genes of the last page of a ranking.

import { root } from "../assets/key.js";

const DOMAINS = `gene-registry.domains ${root.pathname}`;
const GENES = `gene-registry.genes ${root.pathname}`;
const MAX_DOMAINS = 500;

function stored(name) {
  try {
    const found = JSON.parse(sessionStorage.getItem(name) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** In alphabetical order. */
export const domainsSeen = () => stored(DOMAINS).filter((name) => typeof name === "string");

export function rememberDomains(genes) {
  const domains = new Set([...domainsSeen(), ...genes.map((gene) => gene.domain)]);
  domains.delete("");
  sessionStorage.setItem(DOMAINS, JSON.stringify([...domains].sort().slice(0, MAX_DOMAINS)));
}

export function rememberPage(genes) {
  rememberDomains(genes);
  sessionStorage.setItem(GENES, JSON.stringify(genes));
}

/** The gene as a ranking shows it, if the last page of one had it. */
export const geneSeen = (id) => stored(GENES).find((gene) => gene?.id === id) ?? null;
