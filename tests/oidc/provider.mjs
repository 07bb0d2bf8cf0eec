// A real OpenID provider with the device flow and the authorization code flow, for tests. In the latter,
// whoever asks is the user of the settings. Requests under /test/, with JSON in the body, replace what
// users would do in a browser and what an operator would configure:
//
//   approve  { user_code, user }      the user approves the device
//   deny     { user_code }            the user denies it
//   rotate   { alg, keep }            signs with a new key from now on; the old ones stay
//                                     published if `keep` is true
//   settings { access_token_s, device_code_s, interval_s, slow_downs, refuse, busy, retry_after, user }
//                                     lifetimes; how many of the next polls get slow_down;
//                                     whether all documents are 503; how many of the next requests
//                                     get 429, with this Retry-After; who logs in by a browser
//   sign     { claims, header }       signs any claims with the current key
//   polls    {}                       when devices polled the token endpoint, ms
//   fetches  {}                       how often the key set was fetched
//   refusals {}                       how many requests the setting `refuse` refused
//
// Environment: PORT; TLS_CERT and TLS_KEY (files) for https; REDIRECT_URI of the code flow. Prints `ready`
// when it listens.
import { readFileSync } from "node:fs";
import { createServer as createPlainServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createPrivateKey, generateKeyPairSync, randomBytes } from "node:crypto";
import { SignJWT, importJWK } from "jose";
import Provider from "oidc-provider";

const { PORT, TLS_CERT, TLS_KEY, REDIRECT_URI } = process.env;
const ISSUER = `${TLS_CERT ? "https" : "http"}://localhost:${PORT}`;
const CLIENT = "gene-registry-cli";
// The first is the audience that tests configure; the second is another one.
const RESOURCES = ["https://keys.example/", "https://other.example/"];
const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

const settings = {
  access_token_s: 300, device_code_s: 300, interval_s: 1, slow_downs: 0, refuse: false, busy: 0, retry_after: "1",
  user: "ada",
};
const polls = [];
let fetches = 0;
let refusals = 0;
let keys = [newKey("RS256")];

// The issued objects, by kind and id; they outlive the provider instance that issued them.
const issued = new Map();

class Adapter {
  constructor(kind) {
    this.kind = kind;
  }
  #all() {
    if (!issued.has(this.kind)) issued.set(this.kind, new Map());
    return issued.get(this.kind);
  }
  async upsert(id, payload) {
    this.#all().set(id, payload);
  }
  async find(id) {
    return this.#all().get(id);
  }
  async findByUid(uid) {
    return [...this.#all().values()].find((payload) => payload.uid === uid);
  }
  async findByUserCode(userCode) {
    return [...this.#all().values()].find((payload) => payload.userCode === userCode);
  }
  async consume(id) {
    this.#all().get(id).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    this.#all().delete(id);
  }
  async revokeByGrantId(grantId) {
    for (const all of issued.values()) {
      for (const [id, payload] of all) if (payload.grantId === grantId) all.delete(id);
    }
  }
}

let provider = newProvider();

function newKey(alg) {
  const kinds = {
    RS256: ["rsa", { modulusLength: 2048 }],
    PS256: ["rsa", { modulusLength: 2048 }],
    ES256: ["ec", { namedCurve: "P-256" }],
    EdDSA: ["ed25519", {}],
  };
  // Through PEM: Node.js 20 can deadlock if the two keys of a pair share memory and one is
  // garbage-collected while the other is exported.
  const [type, options] = kinds[alg];
  const { privateKey } = generateKeyPairSync(type, {
    ...options,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const jwk = createPrivateKey(privateKey).export({ format: "jwk" });
  return { ...jwk, kid: randomBytes(8).toString("hex"), alg, use: "sig" };
}

// A rotation replaces the provider by one with other keys.
function newProvider() {
  const alg = keys[0].alg;
  const made = new Provider(ISSUER, {
    adapter: Adapter,
    jwks: { keys },
    cookies: { keys: ["tests"] },
    clients: [
      {
        client_id: CLIENT,
        application_type: "native",
        token_endpoint_auth_method: "none",
        grant_types: [DEVICE_GRANT, "refresh_token", ...(REDIRECT_URI ? ["authorization_code"] : [])],
        response_types: REDIRECT_URI ? ["code"] : [],
        redirect_uris: REDIRECT_URI ? [REDIRECT_URI] : [],
        id_token_signed_response_alg: alg,
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
    scopes: ["openid", "offline_access"],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: (_, token) => ({ preferred_username: `${token.accountId}@example` }),
    rotateRefreshToken: true,
    clientBasedCORS: () => true,
    ttl: {
      AccessToken: () => settings.access_token_s,
      DeviceCode: () => settings.device_code_s,
      Grant: 3600,
      IdToken: 3600,
      RefreshToken: 3600,
    },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_, resource) => {
          if (!RESOURCES.includes(resource)) throw new Error("no such resource");
          return { audience: resource, scope: "", accessTokenFormat: "jwt", jwt: { sign: { alg } } };
        },
      },
    },
  });
  made.use(async (context, next) => {
    if (context.path === "/jwks") fetches += 1;
    await next();
    if (context.path === "/device/auth" && context.status === 200) {
      context.body = { ...context.body, interval: settings.interval_s };
    }
  });
  return made;
}

async function granted(user, clientId) {
  const grant = new provider.Grant({ accountId: user, clientId });
  grant.addOIDCScope("openid offline_access");
  RESOURCES.forEach((resource) => grant.addResourceScope(resource, "openid offline_access"));
  return grant.save();
}

/** The user of the settings logs in, and consents. */
async function interact(request, response) {
  const { params } = await provider.interactionDetails(request, response);
  const grantId = await granted(settings.user, params.client_id);
  await provider.interactionFinished(request, response, { login: { accountId: settings.user }, consent: { grantId } });
}

async function deviceCode(userCode) {
  const code = await provider.DeviceCode.findByUserCode(userCode.replaceAll("-", "").toUpperCase());
  if (!code || code.isExpired || code.accountId || code.error) throw new Error("no such user code");
  return code;
}

const actions = {
  async approve({ user_code, user }) {
    const code = await deviceCode(user_code);
    Object.assign(code, {
      accountId: user,
      authTime: Math.floor(Date.now() / 1000),
      grantId: await granted(user, code.clientId),
      scope: code.params.scope,
      resource: code.params.resource,
    });
    await code.save();
  },
  async deny({ user_code }) {
    const code = await deviceCode(user_code);
    Object.assign(code, { error: "access_denied", errorDescription: "the user refused" });
    await code.save();
  },
  rotate({ alg = "RS256", keep = false }) {
    keys = [newKey(alg), ...(keep ? keys : [])];
    provider = newProvider();
  },
  settings: (changed) => Object.assign(settings, changed),
  async sign({ claims, header = {} }) {
    const { alg, kid } = keys[0];
    return new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(await importJWK(keys[0], alg));
  },
  polls: () => polls,
  fetches: () => fetches,
  refusals: () => refusals,
};

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

function answer(response, status, value) {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(value ?? null));
}

async function serve(request, response) {
  const action = request.url.match(/^\/test\/(\w+)$/)?.[1];
  if (action) {
    try {
      return answer(response, 200, await actions[action](JSON.parse(await body(request))));
    } catch (error) {
      return answer(response, 400, { error: String(error) });
    }
  }
  if (settings.refuse) {
    refusals += 1;
    return answer(response, 503, { error: "temporarily_unavailable" });
  }
  if (settings.busy > 0) {
    settings.busy -= 1;
    if (request.url === "/token") polls.push(Date.now());
    response.setHeader("retry-after", settings.retry_after);
    // As many load balancers reply.
    return response.writeHead(429, { "content-type": "text/html" }).end("<p>Too Many Requests</p>");
  }
  if (request.url.startsWith("/interaction/")) return interact(request, response);
  if (request.method === "POST" && request.url === "/token") {
    // The provider accepts a body that a framework has parsed before it.
    request.body = Object.fromEntries(new URLSearchParams(await body(request)));
    if (request.body.grant_type === DEVICE_GRANT) {
      polls.push(Date.now());
      if (settings.slow_downs > 0) {
        settings.slow_downs -= 1;
        return answer(response, 400, { error: "slow_down" });
      }
    }
  }
  return provider.callback()(request, response);
}

const server = TLS_CERT
  ? createTlsServer({ cert: readFileSync(TLS_CERT), key: readFileSync(TLS_KEY) }, serve)
  : createPlainServer(serve);
server.listen(Number(PORT), "127.0.0.1", () => console.log("ready"));
