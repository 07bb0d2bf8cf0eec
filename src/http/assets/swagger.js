// Shows a document in Swagger UI. Addresses are relative, so that the page works under any path
// prefix; the validator is off, so that no other site gets a request.
function showDocument({ url, base, plugins = [], ...more }) {
  // The page's policy allows requests only to its own server, whatever address the document has.
  const usesOwnServer = () => ({
    statePlugins: {
      spec: {
        wrapActions: {
          updateSpec: (original) => (text) => {
            const document_ = JSON.parse(text);
            document_.servers = [{ url: new URL(base, document.baseURI).href }];
            return original(JSON.stringify(document_));
          },
        },
      },
    },
  });

  // Dark colours follow the system's setting.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();

  // There is only one server to choose.
  const oneServer = () => ({ wrapComponents: { ServersContainer: () => () => null } });

  // Makes scrollable areas reachable by keyboard.
  const makeFocusable = () => {
    for (const code of document.querySelectorAll(".microlight:not([tabindex])")) code.tabIndex = 0;
  };
  new MutationObserver(makeFocusable).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });

  return SwaggerUIBundle({
    url,
    dom_id: "#swagger-ui",
    validatorUrl: null,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { activated: true, theme: "nord" },
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [...plugins, usesOwnServer, oneServer],
    layout: "BaseLayout",
    ...more,
  });
}
