import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, demo, fits, keys, themes, onPage, proxied, shot, start, stop, storedKey, withoutHeaders } from "./support.mjs";

before(start);
after(stop);

/** What axe finds in Swagger UI itself: with addresses of operations, a link stands within a button. */
const OF_SWAGGER_UI = ["nested-interactive"];
const OPERATIONS = ["/genes", "/genes/{id}/phenotype", "/arena/insights"];
const block = (page, path) => page.locator(".opblock").filter({ has: page.locator(`[data-path="${path}"]`) });

async function open(page, url) {
  await page.goto(`${url}/docs`);
  await page.locator(".opblock").nth(2).waitFor();
}

async function authorize(page, key) {
  await page.locator(".auth-wrapper .authorize").first().click();
  await page.locator(".auth-container input").fill(key);
  await page.locator(".auth-btn-wrapper .authorize").click();
  await page.locator(".auth-btn-wrapper .btn-done").click();
}

/** Tries an operation with its examples; returns the response and its URL. */
async function tryIt(page, path) {
  const one = block(page, path);
  if (!(await one.locator(".execute").isVisible())) await one.locator(".opblock-summary-control").click();
  const received = page.waitForResponse((response) => /\/v1\/(genes|arena)/.test(response.url()));
  await one.locator(".execute").click();
  const response = await received;
  await one.locator(".live-responses-table .response-col_status").filter({ hasText: String(response.status()) }).waitFor();
  return { status: response.status(), url: response.url(), body: await response.json() };
}

for (const theme of themes) {
  test(`the docs page fits and is accessible: ${theme.name}`, () => onPage({ ...theme, key: keys.good }, async (page) => {
    await open(page, demo);
    await page.getByText(/A key is stored for this tab/).waitFor();
    await fits(page);
    await accessible(page, OF_SWAGGER_UI);
    await shot(page, `docs-${theme.name}`, false);
    await tryIt(page, "/arena/insights");
    await fits(page);
    await accessible(page, OF_SWAGGER_UI);
    await page.locator(".live-responses-table").scrollIntoViewIfNeeded();
    await shot(page, `docs-tried-${theme.name}`, false);
  }));
}

test("Authorize and the operations come first, and the guide after them", () => onPage({}, async (page) => {
  await open(page, demo);
  const order = await page.evaluate(() =>
    [...document.querySelectorAll(".auth-wrapper .authorize, .opblock, .guide")].map((one) => one.classList[0]));
  assert.deepEqual(order, ["btn", "opblock", "opblock", "opblock", "guide"]);
  await page.locator(".guide").getByRole("heading", { name: "Pagination" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Pagination" }).count(), 1, "once");
  const top = await page.locator(".opblock").first().evaluate((one) => one.getBoundingClientRect().top);
  assert.ok(top < 700, `the first operation begins at ${top}`);
}));

test("an operation has an address", () => onPage({}, async (page) => {
  await page.goto(`${demo}/docs#/nonstandard/getArenaInsights`);
  await block(page, "/arena/insights").locator(".execute").waitFor();
  assert.equal(await page.locator(".opblock.is-open").count(), 1);
}));

test("a long response is collapsed", () => onPage({ key: keys.good }, async (page) => {
  await page.goto(`${demo}/docs#/nonstandard/searchGenes`);
  await block(page, "/genes").locator("tr[data-param-name=limit] input").fill("50");
  await tryIt(page, "/genes");
  const response = page.locator(".live-responses-table details");
  assert.equal(await response.evaluate((one) => one.open), false);
  await response.locator("summary").click();
  await response.getByText("arena_history").first().waitFor();
}));

test("every operation has the code samples of the document", () => onPage({}, async (page) => {
  await open(page, demo);
  const { paths } = await page.evaluate(async () => (await fetch("openapi.json")).json());
  for (const path of OPERATIONS) {
    const one = block(page, path);
    await one.locator(".opblock-summary-control").click();
    const samples = one.locator(".samples");
    for (const { label, source } of paths[path].get["x-codeSamples"]) {
      await samples.getByLabel(label).check();
      assert.equal(await samples.locator("pre code").textContent(), source);
    }
    await samples.getByText(`BASE_URL=${demo}/v1`).waitFor();
    await samples.getByRole("button", { name: "Copy" }).click();
    await samples.getByRole("button", { name: "Copied" }).waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /reqwest::Client/);
  }
}));

test("no command with the key is shown", () => onPage({ key: keys.good }, async (page) => {
  await open(page, demo);
  await tryIt(page, "/arena/insights");
  assert.ok(!(await page.locator("#swagger-ui").textContent()).includes(keys.good));
}));

for (const [where, url, server] of [
  ["plainly", demo, `${demo}/v1`],
  ["behind TLS and a prefix", proxied, `${proxied}/v1`],
  // The document cannot be correct there, but the page works.
  ["behind a prefix without forwarding headers", withoutHeaders, "/v1"],
]) {
  test(`every operation can be tried with its example, ${where}`, () => onPage({}, async (page, seen) => {
    await open(page, url);
    const served = await page.evaluate(async () => (await fetch("openapi.json")).json());
    assert.deepEqual(served.servers, [{ url: server }]);
    await authorize(page, keys.good);
    for (const path of OPERATIONS) {
      const { status, url: requested, body } = await tryIt(page, path);
      assert.equal(status, 200, JSON.stringify(body));
      assert.ok(requested.startsWith(`${url}/v1/`), requested);
      if (path === "/genes") assert.ok(body.data.length > 0, "an example that finds something");
    }
    assert.equal(seen.counted.length, 3);
    assert.ok(!seen.urls.some((address) => address.includes("//v1")), "no //v1");
  }));
}

test("the key is stored for the tab, shared with the arena, and removed by logging out", () => onPage({}, async (page) => {
  await open(page, demo);
  await authorize(page, keys.good);
  await page.getByText(/A key is stored for this tab/).waitFor();
  await open(page, demo);
  assert.equal((await tryIt(page, "/arena/insights")).status, 200);
  assert.equal(await page.evaluate(() => localStorage.length), 0, "nothing is stored beyond the tab");
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.goto(`${demo}/arena`);
  await page.getByText(`Key ${keys.good.slice(0, 11)}`).waitFor();
  await open(page, demo);
  await page.locator(".auth-wrapper .authorize").first().click();
  await page.locator(".auth-btn-wrapper button").filter({ hasText: "Logout" }).click();
  assert.equal(await storedKey(page), null);
}));

test("a wrong key shows the 401 in the page", () => onPage({ provokes: [401] }, async (page) => {
  await open(page, demo);
  await authorize(page, keys.revoked);
  const { status, body } = await tryIt(page, "/genes");
  assert.deepEqual([status, body.code], [401, "UNAUTHORIZED"]);
}));
