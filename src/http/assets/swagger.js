// Responses of more characters are collapsed.
const LONG_RESPONSE = 2_000;

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

  // The operations come first, and the guide of the document after them.
  const guideLast = ({ React }) => {
    const h = React.createElement;
    const withoutGuide = (Info) => (props) => h(Info, { ...props, info: props.info.delete("description") });
    const withGuide = (Operations, { getComponent, specSelectors }) => (props) => {
      const source = specSelectors.info()?.get("description");
      const guide = h("section", { className: "guide", "aria-label": "Guide" }, h(getComponent("Markdown", true), { source }));
      return h(React.Fragment, null, h(Operations, props), guide);
    };
    return { wrapComponents: { info: withoutGuide, operations: withGuide } };
  };

  // Long responses are shown when they are opened.
  const collapsesResponses = ({ React }) => {
    const h = React.createElement;
    const collapsed = (Body) => (props) => {
      const length = typeof props.content === "string" ? props.content.length : 0;
      if (length <= LONG_RESPONSE) return h(Body, props);
      const summary = h("summary", null, `Response body: ${length.toLocaleString("en")} characters`);
      return h("details", { className: "long-response" }, summary, h(Body, props));
    };
    return { wrapComponents: { responseBody: collapsed } };
  };

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
    deepLinking: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { activated: true, theme: "nord" },
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [...plugins, usesOwnServer, oneServer, guideLast, collapsesResponses],
    layout: "BaseLayout",
    ...more,
  });
}
