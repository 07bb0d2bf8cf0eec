// The token is not stored.
window.ui = showDocument({ url: "control/v1/openapi.json", base: "control/v1" });
