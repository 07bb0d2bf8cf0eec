import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { accessible, away, demo, fits, keys, looks, onPage, proxied, shot, start, stop } from "./support.mjs";

before(start);
after(stop);

for (const look of looks) {
  test(`the front page is well to look at: ${look.name}`, () => onPage(look, async (page) => {
    await page.goto(`${demo}/`);
    await page.getByRole("heading", { name: "All systems operational" }).waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `front-${look.name}`);
  }));
}

for (const [where, url] of [["plainly", demo], ["behind TLS and a prefix", proxied]]) {
  test(`each command that is copied works, ${where}`, () => onPage({}, async (page) => {
    await page.goto(`${url}/`);
    for (const [name, field] of [["search and rank genes", "data"], ["read a gene's phenotype", "phenotype"], ["see the health of an arena", "gene_count"]]) {
      await page.getByRole("button", { name: `Copy: ${name}` }).click();
      await page.getByRole("status").filter({ hasText: `Copied: ${name}` }).waitFor({ state: "attached" });
      const command = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(command.includes(`'${url}/v1/`), command);
      const trusting = command.replace("curl ", "curl -sSfk ");
      const answer = execFileSync("bash", ["-c", trusting], { env: { ...process.env, KEY: keys.good } });
      assert.ok(field in JSON.parse(answer), String(answer));
    }
  }));
}

test("without scripts it says the same", () => onPage({ script: false }, async (page) => {
  await page.goto(`${demo}/`);
  assert.ok(await page.getByRole("heading", { name: "All systems operational" }).isVisible());
  assert.ok((await page.locator("pre").nth(1).innerText()).includes(`'${demo}/v1/genes?domain=search`));
}));

test("an absent database is said", () => onPage({}, async (page) => {
  await page.goto(`${away}/`);
  await page.getByRole("heading", { name: /Starting|Serving cached answers only/ }).waitFor();
  await page.getByText("unavailable", { exact: true }).waitFor();
  await accessible(page);
  await shot(page, "front-away");
}));

test("its links lead to the other pages", () => onPage({}, async (page) => {
  for (const url of [demo, proxied]) {
    for (const [name, path] of [["Explore the arena", "arena"], ["Try the API", "docs"]]) {
      await page.goto(`${url}/`);
      await page.getByRole("link", { name }).click();
      await page.waitForURL(`${url}/${path}`);
      await page.getByRole("link", { name: "Overview" }).click();
      await page.waitForURL(`${url}/`);
    }
  }
}));
