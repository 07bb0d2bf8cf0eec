import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { accessible, unavailable, demo, fits, keys, themes, onPage, proxied, shot, start, stop } from "./support.mjs";

before(start);
after(stop);

for (const theme of themes) {
  test(`the front page fits and is accessible: ${theme.name}`, () => onPage(theme, async (page) => {
    await page.goto(`${demo}/`);
    await page.getByRole("heading", { name: "All systems operational" }).waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `front-${theme.name}`);
  }));
}

for (const [where, url] of [["plainly", demo], ["behind TLS and a prefix", proxied]]) {
  test(`each copied command works, ${where}`, () => onPage({}, async (page) => {
    await page.goto(`${url}/`);
    for (const [name, field] of [["search and rank genes", "data"], ["read a gene's phenotype", "phenotype"], ["see the health of an arena", "gene_count"]]) {
      await page.getByRole("button", { name: `Copy: ${name}` }).click();
      await page.getByRole("status").filter({ hasText: `Copied: ${name}` }).waitFor({ state: "attached" });
      const command = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(command.includes(`'${url}/v1/`), command);
      const insecure = command.replace("curl ", "curl -sSfk ");
      const output = execFileSync("bash", ["-c", insecure], { env: { ...process.env, API_KEY: keys.good } });
      assert.ok(field in JSON.parse(output), String(output));
    }
  }));
}

test("the front page shows the numbers that are public, and how to get a key", () => onPage({}, async (page) => {
  await page.goto(`${demo}/`);
  const { genes, total_domains: domains } = await page.evaluate(async () => (await fetch("domains.json")).json());
  await page.getByRole("heading", { name: `${genes} genes in ${domains} domains` }).waitFor();
  await page.locator("#key").getByText("The demo printed its keys").waitFor();
  const leader = page.locator(".leaders a").first();
  const name = await leader.innerText();
  assert.match(await leader.getAttribute("href"), /^genes\//);
  await page.getByRole("link", { name: "search", exact: true }).click();
  await page.waitForURL(`${demo}/arena?domain=search`);
  await page.goBack();
  await page.getByRole("link", { name, exact: true }).first().click();
  await page.waitForURL(/\/genes\//);
}));

test("by default, the page shows no numbers and no way to a key of its own", () => onPage({}, async (page) => {
  await page.goto(`${unavailable}/`);
  assert.equal(await page.locator("#numbers").count(), 0);
  await page.getByText("Ask the operator of this service for one.").waitFor();
  const status = await page.evaluate(async () => (await fetch("domains.json")).status);
  assert.equal(status, 204);
}));

test("the page shows the same without scripts", () => onPage({ script: false }, async (page) => {
  await page.goto(`${demo}/`);
  assert.ok(await page.getByRole("heading", { name: "All systems operational" }).isVisible());
  assert.ok((await page.locator("pre").nth(1).innerText()).includes(`'${demo}/v1/genes?domain=search`));
}));

test("an unavailable database is shown", () => onPage({}, async (page) => {
  await page.goto(`${unavailable}/`);
  await page.getByRole("heading", { name: /Starting|Serving cached answers only/ }).waitFor();
  assert.deepEqual(await page.locator(".health dd").allInnerTexts(), ["unavailable", "unavailable", "not used"]);
  await accessible(page);
  await shot(page, "front-unavailable");
}));

test("links lead to the other pages", () => onPage({}, async (page) => {
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

test("a slash too many leads to the page, and an unknown address to a page with the way back", () => onPage({ key: keys.good, provokes: [404] }, async (page) => {
  for (const url of [demo, proxied]) {
    for (const path of ["docs", "arena?domain=search"]) {
      await page.goto(`${url}/${path.replace(/(?=\?|$)/, "/")}`);
      await page.waitForURL(`${url}/${path}`);
    }
    for (const path of ["nothing", "deep/in/nothing"]) {
      const response = await page.goto(`${url}/${path}`);
      assert.equal(response.status(), 404);
      await fits(page);
      await accessible(page);
      await page.getByRole("link", { name: "Arena" }).click();
      await page.waitForURL(`${url}/arena`);
    }
  }
}));
