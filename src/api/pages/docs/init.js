// The key is kept for the tab.
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

  window.ui = showDocument({
    url: "openapi.json",
    base: "v1",
    plugins: [keepsKey],
    onComplete() {
      const value = sessionStorage.getItem(KEPT);
      if (value) window.ui.preauthorizeApiKey(SCHEME, value);
    },
  });
})();
