// Stores the key for this tab.
(() => {
  const SCHEME = "ApiKey";
  // The arena stores the key of this tab under the same name.
  const STORED_KEY = "gene-registry.key";
  const note = document.getElementById("key-note");

  function store(value) {
    if (value) sessionStorage.setItem(STORED_KEY, value);
    else sessionStorage.removeItem(STORED_KEY);
    note.textContent = value
      ? `A key is stored for this tab: ${value.slice(0, 11)}… To remove it, log out under “Authorize”.`
      : "Choose “Authorize” to enter a key. It is stored for this tab and sent only in the header X-API-Key.";
  }

  if (sessionStorage.getItem(STORED_KEY)) store(sessionStorage.getItem(STORED_KEY));

  // Stores the authorized key for the tab only; Swagger UI itself would store it permanently.
  const storesKey = () => ({
    statePlugins: {
      auth: {
        wrapActions: {
          authorize: (original) => (payload) => {
            const value = payload[SCHEME]?.value;
            if (typeof value === "string") store(value.trim());
            return original(payload);
          },
          logout: (original) => (names) => {
            store(null);
            return original(names);
          },
        },
      },
    },
  });

  window.ui = showDocument({
    url: "openapi.json",
    base: "v1",
    plugins: [storesKey],
    onComplete() {
      const value = sessionStorage.getItem(STORED_KEY);
      if (value) window.ui.preauthorizeApiKey(SCHEME, value);
    },
  });
})();
