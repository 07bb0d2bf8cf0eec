// The key of this tab. The docs page keeps it under the same name.

const KEPT = "gene-registry.key";
const SEEN = "gene-registry.domains";

export const key = () => sessionStorage.getItem(KEPT);
export const keepKey = (value) => sessionStorage.setItem(KEPT, value);
export const forgetKey = () => sessionStorage.removeItem(KEPT);

/** Whether a header can carry it; if not, there is no use in asking. */
export const canBeKey = (value) => /^[\x21-\x7e]{1,256}$/.test(value);

/** Enough of it to know it by. */
export const shown = (value) => `${value.slice(0, Math.min(11, value.length / 2))}…`;

/** Domains seen in this tab, in alphabetical order. */
export function domainsSeen() {
  try {
    const seen = JSON.parse(sessionStorage.getItem(SEEN) ?? "[]");
    return Array.isArray(seen) ? seen.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}

export function rememberDomains(genes) {
  const seen = new Set([...domainsSeen(), ...genes.map((gene) => gene.domain)]);
  seen.delete("");
  sessionStorage.setItem(SEEN, JSON.stringify([...seen].sort().slice(0, 500)));
}
