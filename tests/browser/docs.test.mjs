import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, demo, fits, keys, looks, onPage, proxied, shot, start, stop, untold } from "./support.mjs";

before(start);
after(stop);

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

/** Tries an operation with its examples; what came back, and the address that was asked. */
async function tryIt(page, path) {
  const one = block(page, path);
  if (!(await one.locator(".execute").isVisible())) await one.locator(".opblock-summary-control").click();
  const answered = page.waitForResponse((response) => /\/v1\/(genes|arena)/.test(response.url()));
  await one.locator(".execute").click();
  const response = await answered;
  await one.locator(".live-responses-table .response-col_status").filter({ hasText: String(response.status()) }).waitFor();
  return { status: response.status(), url: response.url(), body: await response.json() };
}

for (const look of looks) {
  test(`the docs page is well to look at: ${look.name}`, () => onPage({ ...look, key: keys.good }, async (page) => {
    await open(page, demo);
    await page.getByText(/A key is stored for this tab/).waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `docs-${look.name}`, false);
    await tryIt(page, "/arena/insights");
    await fits(page);
    await accessible(page);
    await page.locator(".live-responses-table").scrollIntoViewIfNeeded();
    await shot(page, `docs-tried-${look.name}`, false);
  }));
}

for (const [where, url, server] of [
  ["plainly", demo, "/v1"],
  ["behind TLS and a prefix", proxied, `${proxied}/v1`],
  // The document can't be right there; the page is all the same.
  ["behind a prefix that the service is not told of", untold, "/v1"],
]) {
  test(`every operation can be tried with its example, ${where}`, () => onPage({}, async (page, seen) => {
    await open(page, url);
    const served = await page.evaluate(async () => (await fetch("openapi.json")).json());
    assert.deepEqual(served.servers, [{ url: server }]);
    await authorize(page, keys.good);
    for (const path of OPERATIONS) {
      const { status, url: asked, body } = await tryIt(page, path);
      assert.equal(status, 200, JSON.stringify(body));
      assert.ok(asked.startsWith(`${url}/v1/`), asked);
      if (path === "/genes") assert.ok(body.data.length > 0, "an example that finds something");
    }
    assert.equal(seen.counted.length, 3);
    assert.ok(!seen.urls.some((asked) => asked.includes("//v1")), "no //v1");
  }));
}

test("the key is kept for the tab, shared with the arena, and forgotten by logging out", () => onPage({}, async (page) => {
  await open(page, demo);
  await authorize(page, keys.good);
  await page.getByText(/A key is stored for this tab/).waitFor();
  await open(page, demo);
  assert.equal((await tryIt(page, "/arena/insights")).status, 200);
  assert.equal(await page.evaluate(() => localStorage.length), 0, "nothing outlives the tab");
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.goto(`${demo}/arena`);
  await page.getByText(`Key ${keys.good.slice(0, 11)}`).waitFor();
  await open(page, demo);
  await page.locator(".auth-wrapper .authorize").first().click();
  await page.locator(".auth-btn-wrapper button").filter({ hasText: "Logout" }).click();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("gene-registry.key")), null);
}));

test("a wrong key is answered in the page", () => onPage({ provokes: [401] }, async (page) => {
  await open(page, demo);
  await authorize(page, keys.revoked);
  const { status, body } = await tryIt(page, "/genes");
  assert.deepEqual([status, body.code], [401, "UNAUTHORIZED"]);
}));
