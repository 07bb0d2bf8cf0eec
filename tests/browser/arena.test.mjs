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
  }));
}

for (const [where, url] of [["plainly", demo], ["behind TLS and a prefix", proxied]]) {
  test(`a visitor enters a key, chooses a domain and sees its data, ${where}`, () => onPage({}, async (page, seen) => {
    await page.goto(`${url}/arena`);
    if (url === demo) await shot(page, "arena-no-key");
    await page.getByLabel("API key").fill(keys.good);
    await page.getByRole("button", { name: "Use this key" }).click();
    await ready(page);
    await page.getByRole("navigation", { name: "Domains" }).getByRole("link", { name: "search", exact: true }).click();
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

test("an owner is a link to the owner's genes among those of a page", () => onPage({ key: keys.good }, async (page) => {
  const { data } = await api("genes?domain=search&limit=50");
  const [{ owner, id }] = data;
  const expected = data.flatMap((gene, index) => (gene.owner === owner ? [[String(index + 1), gene.name]] : []));
  assert.ok(expected.length < data.length, "there are others");
  await open(page);
  await page.locator("#rows").getByRole("link", { name: owner, exact: true }).first().click();
  const address = `?domain=search&owner=${encodeURIComponent(owner)}&limit=50`;
  const listed = async () => {
    await page.locator("#owner").getByText(`by ${owner}`).waitFor();
    const shown = await rows(page).evaluateAll((all) => all.map((row) =>
      [row.querySelector(".rank").textContent, row.querySelector("a.gene").textContent]));
    assert.deepEqual(shown, expected);
    assert.equal(new URL(page.url()).search, address);
  };
  await listed();
  await accessible(page);
  await page.reload();
  await listed();
  await page.getByRole("link", { name: "show all owners" }).click();
  await page.locator("#owner").waitFor({ state: "hidden" });
  assert.equal(await rows(page).count(), data.length);
  await open(page, "?domain=search&owner=nobody");
  await page.getByText("None of the genes on this page is by this owner.").waitFor();
  await page.goto(`${demo}/genes/${id}`);
  await page.getByRole("link", { name: owner, exact: true }).click();
  await listed();
}));

test("a view that is left while its response arrives does not disturb the next one", () => onPage({ key: keys.good }, async (page) => {
  await open(page);
  await page.evaluate(() => {
    const json = Response.prototype.json;
    let isFirst = true;
    Response.prototype.json = function () {
      if (!isFirst) return json.call(this);
      isFirst = false;
      return new Promise((_, reject) => { window.leave = () => reject(new DOMException("left", "AbortError")); });
    };
  });
  await page.getByLabel("Sort by").selectOption("downloads");
  await page.waitForFunction(() => window.leave);
  await page.getByLabel("Sort by").selectOption("reputation");
  await page.evaluate(() => window.leave());
  await page.locator("th[aria-sort=descending]").getByText("Reputation").waitFor();
  assert.ok(!(await page.getByRole("alert").isVisible()));
}));

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
  assert.deepEqual(await page.locator("#rows a.gene").allInnerTexts(), expected);
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Downloads");
  assert.equal(new URL(page.url()).search, "?domain=search&fidelity=Native&sort=downloads");

  await open(page, "?limit=50");
  assert.ok(await page.getByRole("link", { name: "Previous" }).isDisabled());
  const names = [];
  for (;;) {
    names.push(...(await page.locator("#rows a.gene").allInnerTexts()));
    const next = page.getByRole("link", { name: "Next" });
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

test("controls, marks of direction and invisible characters are shown as escapes", () => onPage({ key: keys.good, provokes: [404] }, async (page) => {
  // A domain with a control character would be refused.
  const domain = "\u202egnp.exe\u2066\u200b\u{e0041}", evil = `${domain}\u001b[31m`;
  await page.route("**/v1/genes?*", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    for (const gene of body.data.slice(0, 1)) Object.assign(gene, { name: evil, owner: evil, description: evil, domain });
    await route.fulfill({ response, json: body });
  });
  await page.route("**/v1/genes/*/phenotype", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    Object.assign(body, { name: evil, domain, install_command: evil });
    body.phenotype.input = { type: "object", properties: { [evil]: { type: evil, description: evil } } };
    await route.fulfill({ response, json: body });
  });
  const { id } = (await api("genes?limit=1")).data[0];
  for (const path of ["arena", `arena?domain=${encodeURIComponent(domain)}`, `genes/${id}`]) {
    await page.goto(`${demo}/${path}`);
    await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
    if (path.startsWith("genes")) await page.getByRole("heading", { name: "Input" }).waitFor();
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

test("the heads of columns and the names of domains are links", () => onPage({ key: keys.good }, async (page) => {
  await open(page, "?domain=search&limit=10");
  await page.getByRole("columnheader", { name: "Downloads" }).getByRole("link").click();
  await page.waitForURL(/domain=search&sort=downloads&limit=10$/);
  await open(page, "");
  const link = page.locator('#rows .by a[href*="domain="]').first();
  const domain = await link.innerText();
  await link.click();
  await page.getByRole("heading", { name: domain, exact: true }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "The arena" }).waitFor();
}));

test("values that the page does not offer are reported, and replaced by the defaults", () => onPage({ key: keys.good }, async (page) => {
  await open(page, "?domain=search&sort=price&limit=1000&offset=-1&fidelity=native");
  const notice = page.locator("#notice");
  for (const name of ["sort", "limit", "offset", "fidelity"]) assert.ok((await notice.innerText()).includes(name));
  assert.equal(new URL(page.url()).search, "?domain=search");
  await page.reload();
  await ready(page);
  assert.ok(await notice.isHidden());
}));

/** As where the names of domains are not public. */
const withoutPublished = (page) => page.route("**/domains.json", (route) => route.fulfill({ status: 204 }));

test("a known domain is chosen from the list by keyboard, and another one typed", () => onPage({ key: keys.good }, async (page) => {
  await withoutPublished(page);
  await open(page, "");
  const field = page.getByRole("combobox", { name: "Domain" });
  await field.fill("sea");
  const list = page.getByRole("listbox");
  await list.waitFor();
  assert.deepEqual(await list.getByRole("option").allInnerTexts(), ["search", "search.web"]);
  await accessible(page);
  await field.press("ArrowDown");
  assert.equal(await field.getAttribute("aria-activedescendant"), "domain-0");
  await field.press("Escape");
  assert.ok(await list.isHidden());
  await field.press("ArrowDown");
  await field.press("Enter");
  await page.waitForURL(/domain=search$/);
  await page.getByRole("heading", { name: "search", exact: true }).waitFor();
}));

test("the names that are public can be chosen from the start, with their sizes", () => onPage({ key: keys.good }, async (page, seen) => {
  await open(page, "?limit=10");
  await page.getByRole("combobox", { name: "Domain" }).fill("code");
  const options = await page.getByRole("option").allInnerTexts();
  assert.ok(options.some((option) => /^code.testing \d+ genes$/.test(option)), String(options));
  assert.ok(await page.getByRole("button", { name: /Look for domains/ }).isHidden());
  assert.equal(seen.counted.length, 1);
}));

test("a search for domains says what it costs and what it found", () => onPage({ key: keys.good }, async (page, seen) => {
  await withoutPublished(page);
  await open(page, "?limit=10");
  const button = page.getByRole("button", { name: "Look for domains (up to 40 requests)" });
  const { total } = await api("genes?limit=1");
  const before_ = seen.counted.length;
  await button.click();
  await page.locator("#found").getByText(`in all ${total} genes.`).waitFor();
  assert.equal(seen.counted.length - before_, Math.ceil(total / 50));
  await page.getByRole("combobox", { name: "Domain" }).fill("code");
  assert.ok((await page.getByRole("option").allInnerTexts()).includes("code.testing"));
}));

test("a search for domains takes at most half of what the window leaves", () => onPage({ key: keys.good }, async (page, seen) => {
  // Simulated, since the sample has few genes.
  await withoutPublished(page);
  let left = 6;
  await page.route("**/v1/genes?*", async (route) => {
    const response = await route.fetch();
    left -= 1;
    const headers = { ...response.headers(), "x-ratelimit-remaining": String(left), link: '<?offset=50>; rel="next"' };
    await route.fulfill({ response, headers, json: { ...(await response.json()), total: 9_000 } });
  });
  await open(page, "");
  const before_ = seen.counted.length;
  await page.getByRole("button", { name: "Look for domains (up to 2 requests)" }).click();
  await page.locator("#found").getByText("in the best 100 of 9,000 genes.").waitFor();
  assert.equal(seen.counted.length - before_, 2);
  await page.getByRole("button", { name: "Look for domains (up to 1 request)" }).waitFor();
}));
