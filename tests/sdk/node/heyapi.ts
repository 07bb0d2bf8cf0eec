// The client of @hey-api/openapi-ts.
import { createClient, createConfig } from "./hey/client/index.js";
import { getArenaInsights, getGenePhenotype, searchGenes } from "./hey/sdk.gen.js";
import { scenario, type Got, type Make } from "./scenario.js";

// `response` is missing if the server could not be reached.
function reached<T>(got: { data?: T; error?: unknown; response?: Response }): Got<T> {
  if (!got.response) throw got.error;
  return got as Got<T>;
}

const make: Make = (baseUrl, key, send) => {
  const fetch_ = send && ((input: RequestInfo | URL, init?: RequestInit) => send(new Request(input, init)));
  const client = createClient(createConfig({ baseUrl, auth: key, ...(fetch_ ? { fetch: fetch_ } : {}) }));
  return {
    search: async (query, tag) =>
      reached(await searchGenes({ client, query, ...(tag ? { headers: { "If-None-Match": tag } } : {}) })),
    phenotype: async (id) => reached(await getGenePhenotype({ client, path: { id } })),
    insights: async (domain) => reached(await getArenaInsights({ client, query: { domain } })),
  };
};

void scenario("@hey-api/openapi-ts", make);
