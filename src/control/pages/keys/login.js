// Logs in at the issuer: the authorization code flow of OpenID Connect with PKCE (RFC 7636). The access
// token is returned, and stored nowhere. There is no refresh token, and no signature is verified here:
// the ID token comes from the issuer directly (OpenID Connect Core, section 3.1.3.7).

const STARTED = `gene-registry.login ${location.pathname}`;

/** A login that failed; the message is for people. */
export class LoginError extends Error {}

const redirectUri = () => location.origin + location.pathname;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** Leaves the page for that of the issuer. */
export async function begin(oidc) {
  if (!isSecureContext) throw new LoginError("Logging in at the issuer needs HTTPS. Open this page by its https:// address.");
  const started = { verifier: random(), state: random(), nonce: random() };
  sessionStorage.setItem(STARTED, JSON.stringify(started));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(started.verifier));
  const url = new URL(oidc.authorization_endpoint);
  const parameters = {
    response_type: "code", client_id: oidc.client_id, redirect_uri: redirectUri(), scope: scopes(oidc),
    state: started.state, nonce: started.nonce,
    code_challenge: base64url(digest), code_challenge_method: "S256",
    ...(oidc.resource ? { resource: oidc.resource } : {}),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Without a refresh token; with an ID token, which has the nonce. */
function scopes(oidc) {
  const wanted = new Set(["openid", ...oidc.scopes.split(" ").filter(Boolean)]);
  wanted.delete("offline_access");
  return [...wanted].join(" ");
}

/** The parameters with which the issuer has sent the browser back; they are removed from the address. */
export function takeResponse() {
  const response = new URLSearchParams(location.search);
  if (!response.has("code") && !response.has("error") && !response.has("state")) return null;
  history.replaceState(null, "", location.pathname);
  return response;
}

/** Exchanges the code of a response for an access token. */
export async function finish(response, oidc) {
  const started = JSON.parse(sessionStorage.getItem(STARTED) ?? "null");
  // A response counts once.
  sessionStorage.removeItem(STARTED);
  if (!started || response.get("state") !== started.state) {
    throw new LoginError("This login was not begun in this tab, or was completed already. Log in again.");
  }
  const issuer = response.get("iss");
  if (issuer === null ? oidc.sends_issuer : issuer !== oidc.issuer) {
    throw new LoginError("The response to the login came from another issuer, and was not used.");
  }
  if (response.has("error")) {
    throw new LoginError(`The issuer refused the login: ${response.get("error_description") ?? response.get("error")}`);
  }
  const body = new URLSearchParams({
    grant_type: "authorization_code", code: response.get("code") ?? "", redirect_uri: redirectUri(),
    client_id: oidc.client_id, code_verifier: started.verifier,
    ...(oidc.resource ? { resource: oidc.resource } : {}),
  });
  const tokens = await exchange(oidc.token_endpoint, body);
  const claims = claimsOf(tokens.id_token);
  const audience = [claims?.aud].flat();
  if (claims?.nonce !== started.nonce || claims.iss !== oidc.issuer || !audience.includes(oidc.client_id)) {
    throw new LoginError("The issuer's response does not belong to this login, and was not used.");
  }
  return tokens.access_token;
}

async function exchange(endpoint, body) {
  let tokens;
  try {
    const response = await fetch(endpoint, { method: "POST", body, credentials: "omit", referrerPolicy: "no-referrer" });
    tokens = await response.json();
  } catch {
    throw new LoginError("The issuer cannot be reached. It must allow requests from this page (CORS).");
  }
  if (typeof tokens?.access_token !== "string" || String(tokens.token_type).toLowerCase() !== "bearer") {
    throw new LoginError(`The issuer issued no access token: ${tokens?.error_description ?? tokens?.error ?? "unknown reason"}`);
  }
  return tokens;
}

function claimsOf(token) {
  try {
    const [, payload] = token.split(".");
    const bytes = Uint8Array.from(atob(payload.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}
