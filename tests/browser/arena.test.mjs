import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, demo, fits, keys, themes, onPage, proxied, remaining, shot, start, stop } from "./support.mjs";

before(start);
after(stop);

const rows = (page) => page.locator("#rows tr");
const ready = (page) => page.locator("#rows tr").first().waitFor();
const api = async (path) => (await fetch(`${demo}/v1/${path}`, { headers: { "X-API-Key": keys.good } })).json();

async function open(page, query = "?domain=search", url = demo) {
  await page.goto(`${url}/arena${query}`);
  await ready(page);
}

for (const theme of themes) {
  test(`the arena fits and is accessible: ${theme.name}`, () => onPage({ ...theme, key: keys.good }, async (page) => {
    await open(page, "");
    await fits(page);
    await accessible(page);
    await shot(page, `arena-all-${theme.name}`);
    await open(page);
    await page.locator("svg.history").waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `arena-domain-${theme.name}`);
    await page.locator("button.gene").first().click();
    await page.getByRole("heading", { name: "Output" }).waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `arena-phenotype-${theme.name}`, false);
  }));
}

for (const [where, url] of [["plainly", demo], ["behind TLS and a prefix", proxied]]) {
  test(`a visitor enters a key, chooses a domain and sees its data, ${where}`, () => onPage({}, async (page, seen) => {
    await page.goto(`${url}/arena`);
    if (url === demo) await shot(page, "arena-no-key");
    await page.getByLabel("API key").fill(keys.good);
    await page.getByRole("button", { name: "Use this key" }).click();
    await ready(page);
    await page.getByRole("button", { name: "search", exact: true }).click();
    await page.getByRole("heading", { name: "search", exact: true }).waitFor();
    await page.locator("svg.history").waitFor();
    const facts = await api("arena/insights?domain=search");
    const numbers = await page.locator("#numbers").innerText();
    for (const shown of [facts.shannon_diversity.toFixed(2), `${Math.round(facts.turnover_rate * 100)} %`, facts.avg_fitness.toFixed(3), String(facts.gene_count), String(facts.total_arena_evaluations)]) {
      assert.ok(numbers.includes(shown), `${shown} in ${numbers}`);
    }
    const top = await page.locator("#top li").allInnerTexts();
    assert.equal(top.length, facts.top_genes.length);
    facts.top_genes.forEach((gene, i) => {
      for (const shown of [gene.name, gene.fitness.toFixed(3), gene.trend]) assert.ok(top[i].includes(shown), `${shown} in ${top[i]}`);
    });
    const genes = await api("genes?domain=search&limit=50");
    const points = facts.top_genes.reduce((sum, top_) => sum + genes.data.find((gene) => gene.name === top_.name).arena_history.length, 0);
    assert.equal(await page.locator("svg.history circle").count(), points, "every evaluation is a point");
    assert.equal(await rows(page).count(), Math.min(20, genes.total));
    assert.ok(seen.counted.every((path) => path.startsWith(new URL(`${url}/v1/`).pathname)), String(seen.counted));
  }));
}

test("opening a domain costs at most 4 counted requests", () => onPage({ key: keys.thirty }, async (page) => {
  const before_ = await remaining(keys.thirty);
  await open(page);
  await page.waitForLoadState("networkidle");
  const spent = before_ - (await remaining(keys.thirty)) - 1;
  assert.equal(spent, 2);
  await open(page, "?domain=search&sort=downloads&fidelity=Native");
  await page.waitForLoadState("networkidle");
  assert.ok(before_ - (await remaining(keys.thirty)) - 2 - spent <= 4);
}));

test("the ranking is filtered, sorted and paged, and the URL shows it", () => onPage({ key: keys.good }, async (page, seen) => {
  await open(page, "?domain=search");
  const loaded = () => page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
  const before_ = seen.counted.length;
  await page.getByLabel("Fidelity").selectOption("Native");
  await loaded();
  assert.ok((await page.locator("#rows .badge").allInnerTexts()).every((text) => text === "Native"));
  await page.getByLabel("Sort by").selectOption("downloads");
  await loaded();
  assert.equal(seen.counted.length, before_ + 2, "one request for each change");
  const expected = (await api("genes?domain=search&fidelity=Native&sort=downloads")).data.map((gene) => gene.name);
  assert.deepEqual(await page.locator("#rows button.gene").allInnerTexts(), expected);
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Downloads");
  assert.equal(new URL(page.url()).search, "?domain=search&fidelity=Native&sort=downloads");

  await open(page, "?limit=50");
  assert.ok(await page.getByRole("button", { name: "Previous" }).isDisabled());
  const names = [];
  for (;;) {
    names.push(...(await page.locator("#rows button.gene").allInnerTexts()));
    const next = page.getByRole("button", { name: "Next" });
    if (await next.isDisabled()) break;
    const range = await page.locator("#range").innerText();
    await next.press("Enter");
    await page.waitForFunction((old) => document.getElementById("range").textContent !== old, range);
  }
  const total = (await api("genes")).total;
  assert.equal(names.length, total);
  await page.goBack();
  await page.getByText(`51–100 of ${total}`, { exact: true }).waitFor();
}));

test("a gene's phenotype, by keyboard", () => onPage({ key: keys.good }, async (page) => {
  await open(page);
  const gene = page.locator("button.gene").first();
  await gene.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Input", { exact: true }).waitFor();
  assert.ok((await dialog.innerText()).includes("playground install"));
  await page.keyboard.press("Escape");
  assert.ok(await dialog.isHidden());
  assert.ok(await gene.evaluate((one) => one === document.activeElement), "the focus returns to the gene");
}));

test("controls, marks of direction and invisible characters are shown as escapes", () => onPage({ key: keys.good, provokes: [404] }, async (page) => {
  const evil = "\u202egnp.exe\u2066\u200b\u{e0041}\u001b[31m";
  await page.route("**/v1/genes?*", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    for (const gene of body.data.slice(0, 1)) Object.assign(gene, { name: evil, owner: evil, description: evil, domain: evil });
    await route.fulfill({ response, json: body });
  });
  await page.route("**/v1/genes/*/phenotype", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    Object.assign(body, { name: evil, domain: evil, install_command: evil });
    body.phenotype.input = { type: "object", properties: { [evil]: { type: evil, description: evil } } };
    await route.fulfill({ response, json: body });
  });
  for (const query of ["", `?domain=${encodeURIComponent(evil.slice(0, -5))}`]) {
    await page.goto(`${demo}/arena${query}`);
    await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
    if (!query) {
      await page.locator("button.gene").first().click();
      await page.getByRole("dialog").getByText("Input", { exact: true }).waitFor();
    }
    const shown = await page.evaluate(() => [document.title, document.documentElement.textContent,
      ...[...document.querySelectorAll("[aria-label]")].map((one) => one.getAttribute("aria-label"))].join("\n"));
    assert.ok(shown.includes("\\u{202e}gnp.exe\\u{2066}"), shown);
    assert.doesNotMatch(shown, /[\u001b\u202a-\u202e\u2066-\u2069\u200b\u{e0000}-\u{e007f}]/u);
  }
}));

test("a visitor enters a key and chooses a domain by keyboard", () => onPage({}, async (page) => {
  await page.goto(`${demo}/arena`);
  await page.keyboard.type(keys.good);
  await page.keyboard.press("Enter");
  await ready(page);
  await page.keyboard.press("Tab");
  const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  for (let i = 0; i < 10 && (await focus()) !== "domain"; i += 1) await page.keyboard.press("Tab");
  assert.equal(await focus(), "domain");
  await page.keyboard.type("code.testing");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "code.testing" }).waitFor();
  await page.locator("svg.history").waitFor();
  await page.getByRole("status").filter({ hasText: /shown/ }).waitFor({ state: "attached" });
}));
