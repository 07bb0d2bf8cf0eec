import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, unavailable, demo, keys, onPage, shot, start, stop, storedKey } from "./support.mjs";

before(start);
after(stop);

const alert = (page) => page.getByRole("alert");

async function enter(page, key) {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Use this key" }).click();
}

test("each kind of wrong key shows a message, and another key can be entered", () => onPage({ provokes: [401] }, async (page, seen) => {
  await page.goto(`${demo}/arena`);
  for (const key of ["no key at all", keys.expired, keys.revoked, keys.scopeless, `${keys.good.slice(0, -1)}~`]) {
    await enter(page, key);
    await alert(page).getByText("This key was not accepted").waitFor();
    assert.ok(await page.getByLabel("API key").evaluate((one) => one === document.activeElement));
    assert.equal(await storedKey(page), null);
  }
  assert.ok(seen.counted.length <= 5);
  await accessible(page);
  await shot(page, "error-key");
  await enter(page, keys.good);
  await page.locator("#rows tr").first().waitFor();
  assert.ok(await page.locator("#error").isHidden());
}));

test("an exhausted limit shows a countdown, and then the request is repeated", () => onPage({ key: keys.two, provokes: [429] }, async (page, seen) => {
  await page.clock.install();
  await page.goto(`${demo}/arena?domain=search`);
  await page.locator("#rows tr").first().waitFor();
  await page.getByText("0 of 2 requests remain this minute").waitFor();
  await page.getByLabel("Sort by").selectOption("downloads");
  await alert(page).getByText("This key has used up its limit").waitFor();
  assert.ok(await page.locator("#overview").isVisible(), "the previous content stays");
  const again = page.getByRole("button", { name: "Try again" });
  assert.ok(await again.isDisabled());
  const left = async () => Number.parseInt((await page.locator(".countdown").innerText()).match(/\d+/), 10);
  const first = await left();
  assert.ok(first > 0 && first <= 60, String(first));
  await accessible(page);
  await shot(page, "error-limit");
  await page.clock.fastForward(5_000);
  assert.ok((await left()) <= first - 5 + 1);
  const sent = seen.counted.length;
  const repeated = page.waitForResponse(/v1\/genes\?/);
  await page.clock.fastForward(60_000);
  await repeated;
  assert.equal(seen.counted.length, sent + 1);
  await page.locator("a.gene").first().click();
  await page.waitForURL(/genes/);
  await alert(page).getByText("This key has used up its limit").waitFor();
}));

test("an unknown domain is reported, and others are offered", () => onPage({ key: keys.good, provokes: [404] }, async (page) => {
  await page.goto(`${demo}/arena`);
  await page.locator("#rows tr").first().waitFor();
  await page.getByLabel("Domain", { exact: true }).fill("<b>nowhere</b>");
  await page.getByRole("button", { name: "Show" }).click();
  await alert(page).getByText("There is no domain “<b>nowhere</b>”").waitFor();
  await accessible(page);
  await shot(page, "error-domain");
  await alert(page).getByRole("button").first().click();
  await page.locator("svg.history").waitFor();
}));

test("an unavailable database is reported by a real 502", () => onPage({ key: keys.good, provokes: [502] }, async (page) => {
  await page.goto(`${unavailable}/arena?domain=search`);
  await alert(page).getByText("database is unavailable").waitFor();
  assert.ok(await page.getByRole("button", { name: "Try again" }).isEnabled());
  await accessible(page);
  await shot(page, "error-database");
}));

test("an overloaded and an unreachable service are reported", () => onPage({ key: keys.good, provokes: [503] }, async (page, seen) => {
  await page.goto(`${demo}/arena?domain=search`);
  await page.locator("#rows tr").first().waitFor();
  // Simulated, since the other tests need the demo.
  await page.route("**/v1/genes?*", (route) => route.fulfill({
    status: 503, headers: { "Retry-After": "2" }, json: { error: "overloaded", code: "UNAVAILABLE" },
  }));
  await page.getByLabel("Sort by").selectOption("reputation");
  await alert(page).getByText("overloaded").waitFor();
  await page.unroute("**/v1/genes?*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator("#error").waitFor({ state: "hidden" });
  await page.route("**/v1/genes?*", (route) => route.abort("connectionrefused"));
  await page.getByLabel("Sort by").selectOption("downloads");
  await alert(page).getByText("can't be reached").waitFor();
  const expected = (text) => /ERR_CONNECTION_REFUSED/.test(text);
  assert.ok(seen.errors.every(expected), String(seen.errors));
  seen.errors.length = 0;
}));
