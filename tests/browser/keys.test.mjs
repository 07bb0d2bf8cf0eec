import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { accessible, control, demo, fits, issuer, onPage, proxiedControl, shot, start, stop, themes, withIssuer } from "./support.mjs";

before(start);
after(stop);

const row = (page, name) => page.getByRole("row").filter({ hasText: name });

async function logIn(page) {
  await page.goto(`${control.url}/keys`);
  await page.getByLabel("Login token").fill(control.token);
  await page.getByRole("button", { name: "Use this token" }).click();
  await page.getByText("Logged in as demo").waitFor();
  // A form that is sent before the keys are listed is ignored.
  await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"));
}

/** Creates a key; returns it. */
async function create(page, name) {
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  return page.locator("#secret").innerText();
}

const status = async (key) => (await fetch(`${demo}/v1/genes?limit=1`, { headers: { "X-API-Key": key } })).status;

async function becomes(key, expected) {
  for (let left = 100; left > 0; left -= 1) {
    if ((await status(key)) === expected) return;
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  assert.equal(await status(key), expected);
}

for (const theme of themes) {
  test(`the page for keys fits and is accessible: ${theme.name}`, () => onPage(theme, async (page) => {
    await page.goto(`${control.url}/keys`);
    await page.getByLabel("Login token").waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `keys-login-${theme.name}`);
    await logIn(page);
    await row(page, "5,000 requests a minute").waitFor();
    await fits(page);
    await accessible(page);
    await shot(page, `keys-${theme.name}`);
    await row(page, "2 requests a minute").first().getByRole("button", { name: "Change" }).click();
    await accessible(page);
    await fits(page);
  }));
}

test("an unknown address leads back, and a slash too many to the page", () => onPage({ provokes: [404] }, async (page) => {
  for (const url of [control.url, proxiedControl]) {
    for (const path of ["nothing", "deep/in/nothing"]) {
      const response = await page.goto(`${url}/${path}`);
      assert.equal(response.status(), 404);
      await fits(page);
      await accessible(page);
      await page.getByRole("link", { name: "API keys" }).click();
      await page.waitForURL(`${url}/keys`);
    }
    for (const path of ["keys", "docs"]) {
      await page.goto(`${url}/${path}/`);
      await page.waitForURL(`${url}/${path}`);
    }
  }
}));

test("who logs out has to log in again", () => onPage({}, async (page) => {
  await logIn(page);
  await row(page, "5,000 requests a minute").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Login token").waitFor();
  assert.equal(await page.locator("#rows tr").count(), 0);
  assert.ok(await page.getByRole("button", { name: "Log out" }).isHidden());
}));

test("a key is created, shown once, changed, replaced and revoked", () => onPage({}, async (page) => {
  await logIn(page);
  const name = `<b>mine</b> ${Date.now()}`;
  const key = await create(page, name);
  assert.equal(await status(key), 200);
  await page.getByRole("button", { name: "Copy" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
  await page.getByRole("button", { name: "I have stored it" }).click();
  assert.ok(!(await page.content()).includes(key), "it is not in the page any more");

  await row(page, name).getByRole("button", { name: "Change" }).click();
  await page.getByLabel("Name").last().fill(`${name} changed`);
  await page.getByRole("dialog").getByRole("button", { name: "Change" }).click();
  await row(page, `${name} changed`).getByRole("button", { name: "Rotate" }).click();
  await page.getByLabel("The old key stays valid").selectOption("0");
  await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  const next = await page.locator("#secret").innerText();
  assert.notEqual(next, key);
  await becomes(key, 401);
  assert.equal(await status(next), 200);

  const active = row(page, `${name} changed`).filter({ hasText: "active" });
  await active.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await active.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await becomes(next, 401);
  await row(page, `${name} changed`).filter({ hasText: "revoked" }).waitFor();
}));

test("a key is created once, however often the form is sent", () => onPage({}, async (page) => {
  await logIn(page);
  const name = `once ${Date.now()}`;
  let created = 0;
  page.on("request", (request) => { if (request.method() === "POST" && request.url().endsWith("/api-keys")) created += 1; });
  await page.getByLabel("Name").fill(name);
  await page.evaluate(() => { for (let left = 2; left > 0; left -= 1) document.getElementById("create").requestSubmit(); });
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  await row(page, name).waitFor();
  const key = await page.locator("#secret").innerText();
  await page.getByLabel("Name").fill(`${name} again`);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("alert").getByText("First store the new key").waitFor();
  assert.equal(await page.locator("#secret").innerText(), key);
  assert.equal(created, 1);
}));

test("keys are managed by keyboard alone, behind TLS and a prefix", () => onPage({}, async (page) => {
  await page.goto(`${proxiedControl}/keys`);
  const press = async (keys) => { for (const key of keys) await page.keyboard.press(key); };
  const tabTo = async (name) => {
    for (let left = 60; left > 0; left -= 1) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? (document.activeElement.id || document.activeElement.textContent));
      if (focused.startsWith(name)) return;
    }
    assert.fail(`${name} is not reached`);
  };
  await tabTo("token");
  await page.keyboard.type(control.token);
  await press(["Enter"]);
  await page.getByText("Logged in as demo").waitFor();
  await tabTo("name");
  await page.keyboard.type("by keyboard");
  await press(["Enter"]);
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  await row(page, "by keyboard").waitFor();
  await tabTo("done");
  await press(["Enter"]);
  const prefix = (await row(page, "by keyboard").locator("code").innerText()).replace("…", "");
  await tabTo(`Revoke ${prefix}`);
  await press(["Enter"]);
  await page.getByRole("dialog").waitFor();
  await tabTo("confirm");
  await press(["Enter"]);
  await row(page, "by keyboard").filter({ hasText: "revoked" }).waitFor();
}));

test("neither the token nor a key is stored, and both are gone after a reload", () => onPage({}, async (page) => {
  await logIn(page);
  const key = await create(page, `stored ${Date.now()}`);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.title, history.state]));
  for (const secret of [control.token, key]) assert.ok(!stored.includes(secret), stored);
  await page.reload();
  await page.getByLabel("Login token").waitFor();
  assert.ok(!(await page.content()).includes(key));
}));

test("going back after another page shows no key", () => onPage({}, async (page) => {
  await logIn(page);
  const key = await create(page, `back ${Date.now()}`);
  await page.goto(`${control.url}/docs`);
  await page.goBack();
  await page.getByLabel("Login token").waitFor();
  assert.ok(!(await page.content()).includes(key));
}));

test("a wrong token is refused", () => onPage({ provokes: [401] }, async (page) => {
  await page.goto(`${control.url}/keys`);
  await page.getByLabel("Login token").fill("grt_wrong");
  await page.getByRole("button", { name: "Use this token" }).click();
  await page.getByRole("alert").getByText("no valid access token or login token").waitFor();
  assert.equal(await page.getByLabel("Login token").inputValue(), "");
}));

test("an answer to a login that was not begun here is not used", () => onPage({}, async (page) => {
  await page.goto(`${control.url}/keys?code=stolen&state=guessed`);
  await page.getByRole("alert").getByText("Log in again").waitFor();
  assert.equal(page.url(), `${control.url}/keys`);
}));

test("the page cannot be framed, and is stored nowhere", async () => {
  const other = createServer((request, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end(`<iframe src="${decodeURIComponent(request.url.slice(2))}"></iframe>`);
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  const origin = `http://127.0.0.1:${other.address().port}`;
  const refuses = /frame-ancestors|ERR_BLOCKED_BY_RESPONSE/;
  await onPage({ allows: [origin], refuses }, async (page) => {
    for (const url of [control.url, withIssuer]) {
      const { headers } = await fetch(`${url}/keys`);
      assert.match(headers.get("content-security-policy"), /frame-ancestors 'none'/);
      assert.equal(headers.get("cache-control"), "no-store");
      assert.equal(headers.get("referrer-policy"), "no-referrer");
      await page.goto(`${origin}/?${encodeURIComponent(`${url}/keys`)}`);
      const frame = page.frames().find((one) => one.parentFrame());
      assert.ok(!(await frame.content()).includes("Your API keys"));
    }
  }).finally(() => {
    other.closeAllConnections();
    other.close();
  });
});

/** Sets how the issuer behaves. */
const set = (settings) => fetch(`${issuer}/test/settings`, { method: "POST", body: JSON.stringify(settings) });

async function logInAtIssuer(page, user = "ada") {
  await set({ user });
  await page.context().clearCookies();
  await page.goto(`${withIssuer}/keys`);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText(`Logged in as ${user}`).waitFor();
}

/** Follows redirects like a browser with cookies, up to the page; returns the address with the code. */
async function followed(url) {
  const cookies = new Map();
  let next = url;
  while (!next.startsWith(`${withIssuer}/keys`)) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const { headers } = await fetch(next, { redirect: "manual", headers: { cookie } });
    for (const one of headers.getSetCookie()) cookies.set(...one.match(/^([^=]+)=([^;]*)/).slice(1));
    next = new URL(headers.get("location"), next).href;
  }
  return new URL(next);
}

/** A response of the issuer to the login that the page has begun, before the page has it. */
async function heldResponse(page) {
  const isLogin = (url) => url.href.startsWith(`${issuer}/auth?`);
  await set({ user: "ada" });
  await page.route(isLogin, (route) => route.abort("aborted"));
  await page.goto(`${withIssuer}/keys`);
  const [request] = await Promise.all([
    page.waitForRequest((one) => isLogin(new URL(one.url()))),
    page.getByRole("button", { name: "Log in" }).click(),
  ]);
  await page.unroute(isLogin);
  return followed(request.url());
}

const refused = (page, text) => page.getByRole("alert").getByText(text).waitFor();

test("a user logs in at the issuer, and the code is removed from the address", () => onPage({ allows: [issuer] }, async (page, seen) => {
  await logInAtIssuer(page);
  assert.equal(page.url(), `${withIssuer}/keys`);
  const key = await create(page, "by issuer");
  await row(page, "by issuer").waitFor();
  const stored = await page.evaluate(() => [{ ...localStorage }, { ...sessionStorage }, history.state, document.title, document.cookie]);
  assert.deepEqual(stored, [{}, {}, null, "API keys · Gene Registry", ""]);
  assert.ok(!seen.urls.some((url) => url.includes(key)));
  const authorization = new URL(seen.urls.find((url) => url.startsWith(`${issuer}/auth?`)));
  assert.equal(authorization.searchParams.get("code_challenge_method"), "S256");
  assert.ok(!authorization.searchParams.get("scope").includes("offline_access"));
  await page.reload();
  await page.getByRole("button", { name: "Log in" }).waitFor();
}));

test("the back button leads to no key and no other login", () => onPage({ allows: [issuer] }, async (page) => {
  await logInAtIssuer(page);
  const key = await create(page, "back at the issuer");
  await page.goto(`${withIssuer}/docs`);
  await page.goBack();
  await page.getByRole("button", { name: "Log in" }).waitFor();
  assert.ok(!(await page.content()).includes(key));
  assert.equal(page.url(), `${withIssuer}/keys`);
}));

test("a response with another state is refused", () => onPage({ allows: [issuer] }, async (page) => {
  const response = await heldResponse(page);
  response.searchParams.set("state", "guessed");
  await page.goto(response.href);
  await refused(page, "was not begun in this tab");
  assert.equal(page.url(), `${withIssuer}/keys`);
}));

test("a response of another issuer, or of none, is refused", () => onPage({ allows: [issuer] }, async (page) => {
  for (const change of [(query) => query.set("iss", "https://other.example"), (query) => query.delete("iss")]) {
    const response = await heldResponse(page);
    change(response.searchParams);
    await page.goto(response.href);
    await refused(page, "came from another issuer");
  }
}));

test("a code counts once", () => onPage({ allows: [issuer], provokes: [400] }, async (page, seen) => {
  const response = await heldResponse(page);
  const started = await page.evaluate(() => ({ ...sessionStorage }));
  await page.goto(response.href);
  await page.getByText("Logged in as ada").waitFor();
  // The same tab, as an attacker would have it who could also restore what the login began with.
  await page.goto(response.href);
  await refused(page, "was not begun in this tab");
  await page.evaluate((kept) => Object.entries(kept).forEach(([name, value]) => sessionStorage.setItem(name, value)), started);
  await page.goto(response.href);
  await refused(page, "The issuer issued no access token");
  const withCode = seen.urls.filter((url) => url.includes("code="));
  assert.deepEqual(withCode, Array(3).fill(response.href), "only the address has the code, until it is removed");
}));

test("tokens of another login, issuer or client are refused", () => onPage({ allows: [issuer] }, async (page) => {
  for (const claims of [{ nonce: "of another login" }, { iss: "https://other.example" }, { aud: "another client" }]) {
    await page.route(`${issuer}/token`, async (route) => {
      const response = await route.fetch();
      const tokens = await response.json();
      const [head, payload, signature] = tokens.id_token.split(".");
      const changed = { ...JSON.parse(Buffer.from(payload, "base64url")), ...claims };
      tokens.id_token = [head, Buffer.from(JSON.stringify(changed)).toString("base64url"), signature].join(".");
      await route.fulfill({ response, json: tokens });
    });
    await page.goto((await heldResponse(page)).href);
    await refused(page, "does not belong to this login");
    await page.unroute(`${issuer}/token`);
  }
}));

test("an issuer's refusal is shown as text", () => onPage({ allows: [issuer] }, async (page) => {
  const response = await heldResponse(page);
  response.searchParams.delete("code");
  response.searchParams.set("error", "access_denied");
  response.searchParams.set("error_description", "<b>no\u202e</b>");
  await page.goto(response.href);
  await refused(page, "The issuer refused the login: <b>no\\u{202e}</b>");
}));

test("a key of another user cannot be changed", () => onPage({ allows: [issuer], provokes: [404] }, async (page) => {
  await logInAtIssuer(page, "grace");
  await create(page, "of grace");
  const prefix = (await row(page, "of grace").locator("code").innerText()).replace("…", "");
  await page.getByRole("button", { name: "I have stored it" }).click();
  await logInAtIssuer(page, "mallory");
  await create(page, "of mallory");
  assert.equal(await row(page, "of grace").count(), 0);
  await page.route("**/control/v1/api-keys/revoke", (route) => route.continue({ postData: JSON.stringify({ prefix }) }));
  await row(page, "of mallory").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await refused(page, "no such key");
}));

test("the policy allows requests to the token endpoint, and nothing else", () => onPage({}, async () => {
  const { headers } = await fetch(`${withIssuer}/keys`);
  const [, sources] = headers.get("content-security-policy").match(/connect-src ([^;]*)/);
  assert.equal(sources, `'self' ${issuer}`);
}));
