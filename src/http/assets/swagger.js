// Shows a document in Swagger UI. Relative addresses, so that the page works under any path prefix;
// no validator, so that nothing is asked of anywhere else.
function showDocument({ url, base, plugins = [], ...more }) {
  // Whatever address a client is told, this page may ask, and asks, only where it came from.
  const staysHere = () => ({
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

  return SwaggerUIBundle({
    url,
    dom_id: "#swagger-ui",
    validatorUrl: null,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { activated: true, theme: "nord" },
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [...plugins, staysHere, oneServer],
    layout: "BaseLayout",
    ...more,
  });
}
