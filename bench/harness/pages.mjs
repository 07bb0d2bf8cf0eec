// How quick the arena is with many domains; see bench/pages. The registry is simulated, since the sample has
// few genes: each response is a real one with other genes.

import { demo, keys, onPage, start, stop } from "./support.mjs";

const [DOMAINS, GENES, ROUNDS] = [500, 2_000, 30];
const name = (number) => `domain-${String(number % DOMAINS).padStart(4, "0")}`;

async function simulate(page) {
  await page.route("**/domains.json", (route) => route.fulfill({ status: 204 }));
  await page.route("**/v1/genes?*", async (route) => {
    const offset = Number(new URL(route.request().url()).searchParams.get("offset") ?? 0);
    const response = await route.fetch();
    const body = await response.json();
    const [first] = body.data;
    body.data = Array.from({ length: 50 }, (_, index) => ({ ...first, domain: name(offset + index) }));
    Object.assign(body, { total: GENES, offset });
    const next = offset + 50 < GENES ? `<genes?limit=50&offset=${offset + 50}>; rel="next"` : "";
    await route.fulfill({ response, headers: { ...response.headers(), link: next }, json: body });
  });
}

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];

/** Milliseconds from a keystroke until the list is laid out. */
const suggesting = (page, text) => page.evaluate(([value, rounds]) => {
  const field = document.getElementById("domain");
  return Array.from({ length: rounds }, () => {
    const begun = performance.now();
    field.value = value;
    field.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
    return performance.now() - begun;
  });
}, [text, ROUNDS]).then(median);

/** Milliseconds from a choice until the domain is shown. */
async function choosing(page, domain) {
  const times = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await page.goto(`${demo}/arena?limit=10`);
    await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
    times.push(await page.evaluate(async (chosen) => {
      const begun = performance.now();
      document.getElementById("domain").value = chosen;
      document.getElementById("domain-form").requestSubmit();
      while (document.body.hasAttribute("aria-busy")) await new Promise(requestAnimationFrame);
      return performance.now() - begun;
    }, domain));
  }
  return median(times);
}

/** Loads all genes; the longest task of it in milliseconds (0 if none took 50). */
async function searching(page) {
  await page.evaluate(() => {
    window.tasks = [0];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration))).observe({ type: "longtask" });
  });
  await page.getByRole("button", { name: /Look for domains/ }).click();
  await page.locator("#found").waitFor();
  return page.evaluate(() => Math.max(...window.tasks));
}

const results = new Map();
for (const [registry, prepare] of [["the sample", async () => {}], [`${DOMAINS} domains, ${GENES} genes`, simulate]]) {
  await start();
  await onPage({ key: keys.good }, async (page) => {
    await prepare(page);
    await page.goto(`${demo}/arena?limit=10`);
    await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
    const longest = prepare === simulate ? await searching(page) : 0;
    results.set(registry, [await suggesting(page, ""), await choosing(page, "search"), longest]);
  });
  await stop();
}
const [small, large] = [...results.values()];
console.log(`| median of ${ROUNDS}, ms | ${[...results.keys()].join(" | ")} | ratio |\n|---|---|---|---|`);
for (const [index, what] of ["from a keystroke to the suggestions", "from a choice to its domain"].entries()) {
  console.log(`| ${what} | ${small[index].toFixed(1)} | ${large[index].toFixed(1)} | ${(large[index] / small[index]).toFixed(1)} |`);
}
console.log(`| longest task while all genes are loaded | | ${large[2].toFixed(0)} | |`);
