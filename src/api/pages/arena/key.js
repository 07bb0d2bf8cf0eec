// Stores the key of this tab. The docs page stores it under the same name.

const STORED_KEY = "gene-registry.key";
const SEEN_DOMAINS = "gene-registry.domains";

export const key = () => sessionStorage.getItem(STORED_KEY);
export const storeKey = (value) => sessionStorage.setItem(STORED_KEY, value);
export const removeKey = () => sessionStorage.removeItem(STORED_KEY);

/** Whether a header can carry the value; the service would refuse any other. */
export const canBeKey = (value) => /^[\x21-\x7e]{1,256}$/.test(value);

/** The beginning of the key, enough to recognize it. */
export const abbreviate = (value) => `${value.slice(0, Math.min(11, value.length / 2))}…`;

/** Domains seen in this tab, in alphabetical order. */
export function domainsSeen() {
  try {
    const seen = JSON.parse(sessionStorage.getItem(SEEN_DOMAINS) ?? "[]");
    return Array.isArray(seen) ? seen.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}

export function rememberDomains(genes) {
  const seen = new Set([...domainsSeen(), ...genes.map((gene) => gene.domain)]);
  seen.delete("");
  sessionStorage.setItem(SEEN_DOMAINS, JSON.stringify([...seen].sort().slice(0, 500)));
}
