import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, demo, fits, keys, themes, onPage, proxied, shot, start, stop, storedKey } from "./support.mjs";

before(start);
after(stop);

const api = async (path) => (await fetch(`${demo}/v1/${path}`, { headers: { "X-API-Key": keys.good } })).json();
const best = async () => (await api("genes?domain=search&limit=1")).data[0];
const heading = (page, name) => page.getByRole("heading", { name, exact: true });

async function open(page, url = demo) {
  const gene = await best();
  await page.goto(`${url}/genes/${gene.id}`);
  await heading(page, gene.name).waitFor();
  await page.getByText("Rank in its domain").waitFor();
  return gene;
}

for (const theme of themes) {
  test(`a gene's page fits and is accessible: ${theme.name}`, () => onPage({ ...theme, key: keys.good }, async (page) => {
    await open(page);
    await fits(page);
    await accessible(page);
    await shot(page, `gene-${theme.name}`);
  }));
}

for (const [where, url] of [["plainly", demo], ["behind TLS and a prefix", proxied]]) {
  test(`a gene has an address with all that is known of it, ${where}`, () => onPage({ key: keys.good }, async (page, seen) => {
    const gene = await open(page, url);
    const { phenotype, install_command: install } = await api(`genes/${gene.id}/phenotype`);
    const text = await page.locator("main").innerText();
    for (const shown of [gene.description, gene.owner, install, gene.fitness_score.toFixed(3), gene.id]) {
      assert.ok(text.includes(shown), `${shown} in ${text}`);
    }
    for (const [id, schema] of Object.entries({ input: phenotype.input, output: phenotype.output })) {
      for (const name of Object.keys(schema.properties)) {
        await page.locator(`#${id} th`).getByText(name, { exact: true }).first().waitFor();
      }
    }
    assert.equal(await page.locator("svg.history circle").count(), gene.arena_history.length);
    assert.equal(seen.counted.length, 2, String(seen.counted));
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("status").filter({ hasText: "Copied" }).waitFor({ state: "attached" });
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), install);
    await page.getByRole("link", { name: gene.domain, exact: true }).click();
    await page.waitForURL(`${url}/arena?domain=${gene.domain}`);
    await heading(page, gene.domain).waitFor();
  }));
}

test("a gene is opened from the ranking by keyboard, with one request, and back leads to the ranking", () => onPage({ key: keys.good }, async (page, seen) => {
  await page.goto(`${demo}/arena?domain=search`);
  const link = page.locator("a.gene").first();
  const name = await link.innerText();
  const before_ = seen.counted.length;
  await link.press("Enter");
  await heading(page, name).waitFor();
  await page.getByText("Rank in its domain").waitFor();
  assert.equal(seen.counted.length, before_ + 1);
  await page.goBack();
  await page.locator("#rows tr").first().waitFor();
  await page.waitForURL(`${demo}/arena?domain=search`);
}));

test("a gene beyond the first page of its domain is looked for on demand", () => onPage({ key: keys.good }, async (page, seen) => {
  const gene = await best();
  // Simulated, since the sample has no domain of more than a page.
  await page.route("**/v1/genes?*", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    const isFirst = !new URL(route.request().url()).searchParams.get("offset")?.match(/[1-9]/);
    if (isFirst) Object.assign(body, { data: body.data.filter((one) => one.id !== gene.id), total: 90 });
    const headers = { ...response.headers(), ...(isFirst ? { link: '<?offset=50>; rel="next"' } : {}) };
    if (!isFirst) Object.assign(body, { data: [gene], total: 90 });
    await route.fulfill({ response, headers, json: body });
  });
  await page.goto(`${demo}/genes/${gene.id}`);
  await page.getByRole("button", { name: "Look at the next 50" }).click();
  await page.getByText("Rank in its domain").waitFor();
  assert.equal(seen.counted.length, 3);
}));

test("nested fields, bounds and enums are in the table", () => onPage({ key: keys.good }, async (page) => {
  await page.route("**/v1/genes/*/phenotype", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    body.phenotype.input = { type: "object", required: ["mode"], properties: {
      mode: { enum: ["fast", "slow"], default: "fast" },
      rows: { type: "array", items: { type: "object", required: ["n"], properties: { n: { type: "integer", minimum: 1, maximum: 9 } } } },
    } };
    await route.fulfill({ response, json: body });
  });
  await open(page);
  const rows = await page.locator("#input tbody tr").allInnerTexts();
  const expected = [["mode", "required", '"fast"', 'one of "fast", "slow"'], ["rows", "list of object"], ["rows[].n", "required", "at least 1", "at most 9"]];
  expected.forEach((words, index) => words.forEach((word) => assert.ok(rows[index].includes(word), `${word} in ${rows[index]}`)));
}));

test("an address that is no gene's says so", () => onPage({ key: keys.good, provokes: [400, 404] }, async (page) => {
  await page.goto(`${demo}/genes/none`);
  await page.getByRole("alert").getByText("refused").waitFor();
  await page.goto(`${demo}/genes/00000000-0000-0000-0000-000000000000`);
  await page.getByRole("alert").getByText("no longer exists").waitFor();
  await accessible(page);
}));

test("a key is typed once for all tabs, and forgotten in all of them", () => onPage({}, async (page) => {
  const gene = await best();
  await page.goto(`${demo}/arena`);
  const other = await page.context().newPage();
  await other.goto(`${demo}/genes/${gene.id}`);
  await other.getByLabel("API key").waitFor();
  await page.getByLabel("API key").fill(keys.good);
  await page.getByRole("button", { name: "Use this key" }).click();
  await heading(other, gene.name).waitFor();
  const third = await page.context().newPage();
  await third.goto(`${demo}/docs`);
  await third.getByText(/A key is stored for this tab/).waitFor();
  const elsewhere = await page.context().newPage();
  await elsewhere.goto(`${proxied}/arena`);
  await elsewhere.getByLabel("API key").waitFor();
  await page.evaluate(() => {
    window.messages = [];
    window.channel = new BroadcastChannel("gene-registry.key /");
    window.channel.onmessage = ({ data }) => window.messages.push(data);
  });
  await other.getByRole("button", { name: "Forget key" }).click();
  for (const tab of [page, other]) {
    await tab.getByLabel("API key").waitFor();
    assert.equal(await storedKey(tab), null);
  }
  await third.getByText("Choose “Authorize” to enter a key").waitFor();
  assert.equal(await storedKey(third), null);
  await third.evaluate(() => new BroadcastChannel("gene-registry.key /").postMessage("last"));
  await page.waitForFunction(() => window.messages.includes("last"));
  assert.deepEqual(await page.evaluate(() => window.messages), ["forget", "last"], "no tab repeats it");
}));

test("a key that is not accepted is handed to no other tab", () => onPage({ provokes: [401] }, async (page) => {
  await page.goto(`${demo}/arena`);
  const other = await page.context().newPage();
  await other.goto(`${demo}/arena`);
  await page.getByLabel("API key").fill(keys.revoked);
  await page.getByRole("button", { name: "Use this key" }).click();
  await page.getByRole("alert").getByText("This key was not accepted").waitFor();
  assert.equal(await storedKey(other), null);
  assert.ok(await other.getByLabel("API key").isVisible());
}));
