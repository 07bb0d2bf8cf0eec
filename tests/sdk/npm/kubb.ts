// The client of kubb, with zod.
import type { Client, RequestConfig, ResponseConfig } from "@kubb/plugin-client/clients/fetch";
import { getArenaInsights } from "./kubb/clients/getArenaInsights.js";
import { getGenePhenotype } from "./kubb/clients/getGenePhenotype.js";
import { searchGenes } from "./kubb/clients/searchGenes.js";
import type { ErrorBody } from "./kubb/types/ErrorBody.js";
import { scenario, type Got, type Make, type Send } from "./scenario.js";

/** A response that is no success, which the generated functions would parse as one. */
class Failed extends Error {
  constructor(readonly response: Response, readonly body: ErrorBody | undefined) {
    super(String(response.status));
  }
}

async function reached<T>(call: Promise<{ data: unknown; status: number; headers: Headers | unknown }>): Promise<Got<T>> {
  try {
    const { data, status, headers } = await call;
    return { response: new Response(null, { status, headers: headers as Headers }), data: data as T };
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    return { response: error.response, ...(error.body ? { error: error.body } : {}) };
  }
}

const clientOf = (base: string, key: string, send: Send): Client =>
  (async ({ url, params, headers }: RequestConfig) => {
    const query = new URLSearchParams(Object.entries((params ?? {}) as object).map(([name, value]) => [name, String(value)]));
    const response = await send(new Request(`${base}${url}?${query}`, { headers: { ...(headers as object), "X-API-Key": key } }));
    const text = await response.text();
    const data = text ? JSON.parse(text) : undefined;
    if (response.status !== 200) throw new Failed(response, data);
    return { data, status: response.status, statusText: "", headers: response.headers } as ResponseConfig;
  }) as Client;

const make: Make = (base, key, send = fetch) => {
  const client = clientOf(base, key, send);
  return {
    search: (query, tag) => reached(searchGenes(query, tag ? { "If-None-Match": tag } : undefined, { client })),
    phenotype: (id) => reached(getGenePhenotype(id, undefined, { client })),
    insights: (domain) => reached(getArenaInsights({ domain }, undefined, { client })),
  };
};

void scenario("kubb", make);
