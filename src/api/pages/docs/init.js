// Relative addresses, so that the page works under any path prefix; no validator, so that
// nothing is asked of anywhere else.
(() => {
  const SCHEME = "ApiKey";
  // The arena keeps the key of this tab under the same name.
  const KEPT = "gene-registry.key";
  const note = document.getElementById("key-note");

  function keep(value) {
    if (value) sessionStorage.setItem(KEPT, value);
    else sessionStorage.removeItem(KEPT);
    note.textContent = value
      ? `A key is kept for this tab: ${value.slice(0, 11)}… Log out under “Authorize” to forget it.`
      : "Choose “Authorize” to enter a key: it is kept for this tab, and goes only into the header X-API-Key.";
  }

  if (sessionStorage.getItem(KEPT)) keep(sessionStorage.getItem(KEPT));

  // Keeps what is authorized for the tab; Swagger UI itself would keep it for ever.
  const keepsKey = () => ({
    statePlugins: {
      auth: {
        wrapActions: {
          authorize: (original) => (payload) => {
            const value = payload[SCHEME]?.value;
            if (typeof value === "string") keep(value.trim());
            return original(payload);
          },
          logout: (original) => (names) => {
            keep(null);
            return original(names);
          },
        },
      },
    },
  });

  // Whatever address a client is told, this page may ask, and asks, only where it came from.
  const staysHere = () => ({
    statePlugins: {
      spec: {
        wrapActions: {
          updateSpec: (original) => (text) => {
            const document_ = JSON.parse(text);
            document_.servers = [{ url: new URL("v1", document.baseURI).href }];
            return original(JSON.stringify(document_));
          },
        },
      },
    },
  });

  // Its dark colours follow the system.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();

  // There is one server, and nothing to choose.
  const oneServer = () => ({ wrapComponents: { ServersContainer: () => () => null } });

  // What scrolls can be scrolled by keyboard too.
  const reach = () => {
    for (const code of document.querySelectorAll(".microlight:not([tabindex])")) code.tabIndex = 0;
  };
  new MutationObserver(reach).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });

  window.ui = SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#swagger-ui",
    validatorUrl: null,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { activated: true, theme: "nord" },
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [keepsKey, staysHere, oneServer],
    layout: "BaseLayout",
    onComplete() {
      const value = sessionStorage.getItem(KEPT);
      if (value) window.ui.preauthorizeApiKey(SCHEME, value);
    },
  });
})();
