import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, demo, fits, keys, themes, onPage, proxied, shot, start, stop, storedKey, withoutHeaders } from "./support.mjs";

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
    await accessible(page);
    await shot(page, `docs-${theme.name}`, false);
    await tryIt(page, "/arena/insights");
    await fits(page);
    await accessible(page);
    await page.locator(".live-responses-table").scrollIntoViewIfNeeded();
    await shot(page, `docs-tried-${theme.name}`, false);
  }));
}

for (const [where, url, server] of [
  ["plainly", demo, "/v1"],
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
