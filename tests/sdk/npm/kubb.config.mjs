// A client that parses each successful response by zod's schemas.
import { defineConfig } from "@kubb/core";
import { pluginClient } from "@kubb/plugin-client";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginTs } from "@kubb/plugin-ts";
import { pluginZod } from "@kubb/plugin-zod";

export default defineConfig({
  root: ".",
  input: { path: "./openapi.json" },
  output: { path: "./kubb", clean: true, format: false, extension: { ".ts": ".js" } },
  plugins: [
    pluginOas({ generators: [] }),
    pluginTs({}),
    pluginZod({}),
    pluginClient({ client: "fetch", parser: "zod", dataReturnType: "full" }),
  ],
});
