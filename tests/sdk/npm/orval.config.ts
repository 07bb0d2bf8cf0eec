// A client that sends by `send`, and zod's schemas of what is sent and received.
const input = { target: "./openapi.json" };

export default {
  client: {
    input,
    output: {
      target: "orval/client.ts", schemas: "orval/model", client: "fetch", mode: "single",
      override: { mutator: { path: "./send.ts", name: "send", extension: ".js" } },
    },
  },
  zod: { input, output: { target: "orval/zod.ts", client: "zod", mode: "single" } },
};
