#!/usr/bin/env node
// Monitors the arenas of some domains: polls each once a round with If-None-Match, within the limit of
// the key, and prints the changes.
//
//   BASE_URL=http://127.0.0.1:8080/v1 API_KEY=... examples/monitor.mjs [--rounds N] DOMAIN...
//
// Runs until it is stopped, or for N rounds, with a pause of PAUSE_SECONDS (default 30) between them. A
// key of 30 requests a minute is enough for 30 polls a minute: a 304 counts, too.

const { BASE_URL, API_KEY } = process.env;
const domains = process.argv.slice(2);
let rounds = Infinity;
if (domains[0] === "--rounds") rounds = Number(domains.splice(0, 2)[1]);

const latest = new Map(); // domain -> { tag, insights }
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

async function poll(domain) {
  const cached = latest.get(domain);
  const headers = { "X-API-Key": API_KEY, ...(cached && { "If-None-Match": cached.tag }) };
  const query = new URLSearchParams({ domain });
  const response = await fetch(`${BASE_URL}/arena/insights?${query}`, { headers });
  if (response.status === 304) {
    console.log(`${domain}: unchanged`);
  } else if (response.ok) {
    const insights = await response.json();
    latest.set(domain, { tag: response.headers.get("etag"), insights });
    const { gene_count, shannon_diversity, turnover_rate } = insights;
    console.log(`${domain}: ${gene_count} genes, diversity ${shannon_diversity.toFixed(2)}, turnover ${turnover_rate}`);
  } else {
    const { code, error } = await response.json();
    console.error(`${domain}: ${code}: ${error}`);
    if (code === "UNAUTHORIZED") process.exit(1);
  }
  // No requests remain in this window, or the request was refused: wait for the next window.
  const wait = response.headers.get("retry-after")
    ?? (response.headers.get("x-ratelimit-remaining") === "0" ? response.headers.get("x-ratelimit-reset") : 0);
  await sleep(Number(wait));
}

for (let round = 1; round <= rounds; round += 1) {
  for (const domain of domains) await poll(domain);
  if (round < rounds) await sleep(Number(process.env.PAUSE_SECONDS ?? 30));
}
