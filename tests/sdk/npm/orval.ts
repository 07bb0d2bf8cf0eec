// The client of orval, with zod.
import type { ErrorBody } from "./orval/model/index.js";
import { getArenaInsights, getGenePhenotype, searchGenes } from "./orval/client.js";
import { getArenaInsightsResponse, getGenePhenotypeResponse, searchGenesResponse } from "./orval/zod.js";
import { scenario, type Got, type Make } from "./scenario.js";
import type { Options } from "./send.js";

interface Sent {
  status: number;
  headers?: Headers;
  data: unknown;
}

function got<T>(sent: Sent, parse: (data: unknown) => unknown): Got<T> {
  const response = new Response(null, { status: sent.status, ...(sent.headers ? { headers: sent.headers } : {}) });
  if (sent.status !== 200) return { response, error: sent.data as ErrorBody };
  parse(sent.data);
  return { response, data: sent.data as T };
}

const make: Make = (base, key, send) => {
  const options = (headers: Record<string, string> = {}): Options =>
    ({ base, headers: { "X-API-Key": key, ...headers }, ...(send ? { send } : {}) });
  return {
    search: async (query, tag) =>
      got(await searchGenes(query, options(tag ? { "If-None-Match": tag } : {})) as Sent, (data) => searchGenesResponse.parse(data)),
    phenotype: async (id) => got(await getGenePhenotype(id, options()) as Sent, (data) => getGenePhenotypeResponse.parse(data)),
    insights: async (domain) =>
      got(await getArenaInsights({ domain }, options()) as Sent, (data) => getArenaInsightsResponse.parse(data)),
  };
};

void scenario("orval", make);
