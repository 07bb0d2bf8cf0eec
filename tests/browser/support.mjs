// A browser, pages that are watched for errors, foreign requests and violations of the policy, and axe.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { DEMO_URL, UNAVAILABLE_URL, PROXIED_URL, ISSUER_URL, WITH_ISSUER_URL, DEMO_OUTPUT, BROWSER_OUT } = process.env;
export const demo = DEMO_URL;
export const unavailable = UNAVAILABLE_URL;
export const proxied = PROXIED_URL;
/** A control listener, and the OpenID provider at which its users log in. */
export const withIssuer = WITH_ISSUER_URL;
export const issuer = ISSUER_URL;
/** Behind the same proxy, without forwarding headers. */
export const withoutHeaders = new URL("bare", PROXIED_URL).href;

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The demo's keys, by their labels. */
export const keys = (() => {
  const text = readFileSync(DEMO_OUTPUT, "utf8");
  const of = (label) => text.match(new RegExp(`^ +(gr_\\w+) +${label}`, "m"))[1];
  return {
    good: text.match(/^API key: +(gr_\w+)$/m)[1],
    thirty: of("30 requests"), two: of("2 requests"),
    expired: of("expired"), revoked: of("revoked"), scopeless: of("without the scope"),
  };
})();

/** The demo's control listener, and a login token for it. */
export const proxiedControl = new URL("control", PROXIED_URL).href;
export const control = (() => {
  const text = readFileSync(DEMO_OUTPUT, "utf8");
  return { url: text.match(/Control API: (\S+)\/control\/v1/)[1], token: text.match(/Login token: (\S+)/)[1] };
})();

let browser = null;

export async function start() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

export const stop = () => browser?.close();

/**
 * Runs `scenario` on a new page, then checks that no request went elsewhere, the policy was not
 * violated, and the console has no errors other than the statuses in `options.provokes` and texts that
 * match `options.refuses`. Requests to the origins in
 * `options.allows` are allowed.
 */
export async function onPage(options, scenario) {
  const { dark = false, width = 1280, key = null, provokes = [], script = true, refuses = null } = options;
  const context = await browser.newContext({
    colorScheme: dark ? "dark" : "light",
    viewport: { width, height: width < 600 ? 740 : 900 },
    ignoreHTTPSErrors: true,
    javaScriptEnabled: script,
    reducedMotion: "reduce",
  });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const seen = { errors: [], foreign: [], urls: [], counted: [], keys: new Set() };
  const own = [demo, unavailable, proxied, control.url, withIssuer, ...(options.allows ?? [])].map((url) => new URL(url).origin);
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type())) return;
    const status = message.text().match(/responded with a status of (\d+)/)?.[1];
    if (!provokes.includes(Number(status)) && !refuses?.test(message.text())) seen.errors.push(message.text());
  });
  // Pages ask before they are left with a key that nobody has stored.
  page.on("dialog", (dialog) => dialog.accept());
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => {
    const url = new URL(request.url());
    seen.urls.push(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && !own.includes(url.origin)) seen.foreign.push(request.url());
    if (/\/v1\/(genes|arena)/.test(url.pathname)) seen.counted.push(url.pathname + url.search);
  });
  page.on("requestfailed", (request) => {
    const { errorText } = request.failure();
    if (errorText !== "net::ERR_ABORTED" && !refuses?.test(errorText)) seen.errors.push(`${request.url()}: ${errorText}`);
  });
  if (script) {
    await page.addInitScript((kept) => {
      document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
      if (kept && !sessionStorage.getItem("key-set")) {
        sessionStorage.setItem("key-set", "yes");
        for (const prefix of ["/", "/registry/"]) sessionStorage.setItem(`gene-registry.key ${prefix}`, kept);
      }
    }, key);
  }
  try {
    await scenario(page, seen);
    assert.deepEqual(seen.errors, [], "no console errors, and no violation of the policy");
    assert.deepEqual(seen.foreign, [], "no request to anywhere else");
    for (const value of Object.values(keys)) {
      assert.ok(!seen.urls.some((url) => url.includes(value)), "no key in a URL");
    }
  } catch (error) {
    await page.screenshot({ path: join(BROWSER_OUT, "screenshots", "failure.png") }).catch(() => {});
    throw error;
  } finally {
    await context.close();
  }
}

/** The key that the tab has stored for the service without a path prefix. */
export const storedKey = (page) => page.evaluate(() => sessionStorage.getItem("gene-registry.key /"));

export async function shot(page, name, fullPage = true) {
  await page.screenshot({ path: join(BROWSER_OUT, "screenshots", `${name}.png`), fullPage });
}

/** Checks that axe finds nothing serious or critical, except by the rules in `accepted`. */
export async function accessible(page, accepted = []) {
  // Evaluated by the debugger, to which the page's policy does not apply.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ id, impact }) => ["serious", "critical"].includes(impact) && !accepted.includes(id));
  const found = serious.map(({ id, help, nodes }) =>
    `${id}: ${help}\n${nodes.slice(0, 6).map((node) => `    ${node.target} ${node.any[0]?.message ?? ""}`).join("\n")}`);
  assert.equal(found.join("\n"), "");
}

/** Checks that the page is no wider than the screen. */
export async function fits(page) {
  const wide = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return null;
    const over = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > clientWidth + 1);
    return `${scrollWidth} > ${clientWidth}: ${over.slice(0, 8).map((one) => `${one.tagName}.${one.className}`).join(" ")}`;
  });
  assert.equal(wide, null);
}

/** The requests that remain in a key's window. This request is counted too. */
export async function remaining(key) {
  const response = await fetch(`${demo}/v1/genes?limit=1`, { headers: { "X-API-Key": key } });
  return Number(response.headers.get("X-RateLimit-Remaining"));
}

/** Both schemes at every width; 390 in the whole matrix alone. */
export const themes = (process.env.TEST_BROWSER_MATRIX ? [320, 390, 1280] : [320, 1280]).flatMap((width) =>
  [false, true].map((dark) => ({ name: `${width}-${dark ? "dark" : "light"}`, dark, width })));
