// The scenario for every TypeScript client: the promises of the service, as a client sees them.
import assert from "node:assert/strict";
import type { components } from "./schema.js";

export type Page = components["schemas"]["GenePage"];
export type Phenotype = components["schemas"]["GenePhenotype"];
export type Insights = components["schemas"]["ArenaInsights"];
export type Failure = components["schemas"]["ErrorBody"];
export type Query = {
  domain?: string;
  fidelity?: "Wrapped" | "Hybrid" | "Native";
  sort?: "fitness" | "reputation" | "downloads";
  limit?: number;
  offset?: number;
};
export type Got<T> = { response: Response; data?: T; error?: Failure };
const later = "db8dde37-1518-4afb-94b1-f5723d34ff6e";
export interface Client {
  search(query: Query, tag?: string): Promise<Got<Page>>;
  phenotype(id: string): Promise<Got<Phenotype>>;
  insights(domain: string): Promise<Got<Insights>>;
}
export type Send = (request: Request) => Promise<Response>;
/** Makes a client, which sends requests by `send` if given. */
export type Make = (base: string, key: string, send?: Send) => Client;

const env = (name: string): string => {
  const value = process.env[name];
  assert(value, name);
  return value;
};

function found<T>(got: Got<T>): T {
  assert.equal(got.response.status, 200);
  assert(got.data !== undefined);
  return got.data;
}

function refused<T>(got: Got<T>, status: number, code: Failure["code"]): void {
  assert.equal(got.response.status, status);
  assert.equal(got.error?.code, code);
  assert(got.error.error.length > 0);
}

async function allIds(client: Client): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const page = found(await client.search({ limit: 50, offset: ids.length }));
    ids.push(...page.data.map((gene) => gene.id));
    if (page.data.length === 0 || ids.length >= page.total) {
      assert.equal(ids.length, page.total);
      return ids;
    }
  }
}

async function responses(client: Client): Promise<void> {
  const query: Query = { domain: "search", fidelity: "Native", sort: "downloads", limit: 2, offset: 1 };
  const page = found(await client.search(query));
  assert.deepEqual([page.limit, page.offset, page.data.length], [2, 1, 2]);
  assert(page.data.every((gene) => gene.fidelity === "Native" && gene.domain === "search"));
  const ids = await allIds(client);
  assert.equal(new Set(ids).size, ids.length);
  const best = page.data[0];
  assert(best);
  assert.equal(found(await client.phenotype(best.id)).name, best.name);
  const health = found(await client.insights("search"));
  assert(health.gene_count > 0 && health.top_genes.length <= 5);
  const first = await client.search({ limit: 1 });
  const again = await client.search({ limit: 1 }, first.response.headers.get("etag") ?? "");
  assert.equal(again.response.status, 304);
}

async function existingRegistry(client: Client): Promise<void> {
  const empty = found(await client.search({ domain: "foreign.empty" })).data[0];
  assert.deepEqual(empty, {
    id: "00000000-0000-0000-0000-000000000000", name: "", domain: "foreign.empty",
    fidelity: "Wrapped", description: "", fitness_score: 0, reputation_score: 0, owner: "",
    downloads: 0, arena_rank: 0, arena_history: [],
  });
  const bare = found(await client.phenotype(empty.id));
  const nothing = { type: "object", properties: {} };
  assert.deepEqual(bare.phenotype, { input: nothing, output: nothing });
  assert.deepEqual(bare.compatibility, { min_playground_version: "0.0.0", required_fidelity: "Wrapped" });
  const none = found(await client.insights("foreign.empty"));
  assert.deepEqual([none.gene_count, none.avg_fitness, none.top_genes], [1, 0, []]);
  const large = found(await client.search({ domain: "foreign.large" })).data[0];
  assert(large);
  assert.equal(large.name, "\u{1F9EC} \"\\\" \u2028 %");
  assert.equal(large.description, "\u{1D4B3}".repeat(20000));
  assert.deepEqual([large.downloads, large.arena_rank], [2 ** 53 - 1, 2 ** 53 - 1]);
  assert.deepEqual([large.fitness_score, large.reputation_score], [1.5, -0.25]);
  assert.deepEqual(large.arena_history, [
    { fitness_value: 1.5, evaluated_at: "2025-12-31T18:45:00Z", total_calls: 2 ** 53 - 1 },
  ]);
}

async function errors(client: Client, make: Make): Promise<void> {
  refused(await client.phenotype("no-uuid"), 400, "INVALID_ID");
  refused(await client.search({ limit: 51 }), 400, "MISSING_PARAM");
  refused(await client.insights(""), 400, "MISSING_PARAM");
  refused(await client.phenotype("11111111-1111-4111-8111-111111111111"), 404, "NOT_FOUND");
  refused(await client.insights("no.such.domain"), 404, "NOT_FOUND");
  refused(await make(env("BASE_URL"), "wrong").search({}), 401, "UNAUTHORIZED");
  // The clients have no other method: `send` changes that of their requests.
  const posted = make(env("BASE_URL"), env("API_KEY"), (request) => fetch(new Request(request, { method: "POST" })));
  refused(await posted.search({}), 405, "METHOD_NOT_ALLOWED");
  // A working service never sends these responses: an error, and one with fields of a later version.
  const other = make(env("FAULT_URL"), "any");
  refused(await other.search({}), 500, "INTERNAL");
  assert.equal(found(await other.phenotype(later)).id, later);
}

/** The responses of a service without its database, and of one that cannot count. */
async function outage(make: Make): Promise<void> {
  const client = make(env("BASE_URL"), env("API_KEY"));
  refused(await client.search({ domain: "outage" }), 502, "DB_ERROR");
  refused(await client.phenotype("22222222-2222-4222-8222-222222222222"), 502, "DB_ERROR");
  refused(await client.insights("outage"), 502, "DB_ERROR");
  const busy = await make(env("REFUSING_URL"), env("API_KEY")).search({});
  refused(busy, 503, "UNAVAILABLE");
  retryAfter(busy.response);
}

function retryAfter(response: Response): number {
  const wait = Number(response.headers.get("retry-after"));
  assert(wait >= 1 && wait <= 60);
  return wait;
}

async function limits(client: Client): Promise<void> {
  let got = await client.search({ limit: 1 });
  for (let sent = 0; got.response.status === 200; sent += 1) {
    assert(sent <= 3);
    got = await client.search({ limit: 1 });
  }
  refused(got, 429, "RATE_LIMITED");
  const wait = retryAfter(got.response);
  await new Promise((done) => setTimeout(done, wait * 1000));
  found(await client.search({ limit: 1 }));
}

export async function scenario(name: string, make: Make): Promise<void> {
  const client = make(env("BASE_URL"), env("API_KEY"));
  if (process.argv[2] === "brief") {
    await responses(client);
  } else if (process.argv[2] === "outage") {
    await outage(make);
  } else {
    await Promise.all([limits(make(env("BASE_URL"), env("SMALL_KEY"))), (async () => {
      await responses(client);
      await existingRegistry(client);
      await errors(client, make);
    })()]);
  }
  console.log(`${name}: passed`);
}
