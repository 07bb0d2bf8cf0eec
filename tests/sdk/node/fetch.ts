// The client of openapi-typescript and openapi-fetch.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";
import { scenario, type Make } from "./scenario.js";

const make: Make = (baseUrl, key, fetch) => {
  const client = createClient<paths>({ baseUrl, headers: { "X-API-Key": key }, ...(fetch ? { fetch } : {}) });
  return {
    search: (query, tag) =>
      client.GET("/genes", { params: { query, ...(tag ? { header: { "If-None-Match": tag } } : {}) } }),
    phenotype: (id) => client.GET("/genes/{id}/phenotype", { params: { path: { id } } }),
    insights: (domain) => client.GET("/arena/insights", { params: { query: { domain } } }),
  };
};

void scenario("openapi-fetch", make);
