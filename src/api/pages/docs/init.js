// The key of this tab, which the other pages use, too.

import { forgetKey, key, keyIsAccepted, onKeyChange, root, storeKey } from "../assets/key.js";
import { codeSamples } from "./samples.js";

const SCHEME = "ApiKey";
const note = document.getElementById("key-note");
/** Whether another tab has had the key removed: then nothing more is to be removed. */
let isRemoved = false;

function showNote() {
  note.textContent = key()
    ? `A key is stored for this tab: ${key().slice(0, 11)}… To remove it from all tabs, log out under “Authorize”.`
    : "Choose “Authorize” to enter a key. It is stored for this tab and sent only in the header X-API-Key.";
}

// Stores the authorized key for the tab only; Swagger UI itself would store it permanently.
const storesKey = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (original) => (payload) => {
          const value = payload[SCHEME]?.value?.trim();
          if (value && value !== key()) storeKey(value);
          showNote();
          return original(payload);
        },
        logout: (original) => (names) => {
          if (!isRemoved) forgetKey();
          showNote();
          return original(names);
        },
      },
    },
  },
});

function authorize() {
  if (key()) window.ui.preauthorizeApiKey(SCHEME, key());
}

showNote();
document.getElementById("base").textContent = new URL("v1", root).href;
window.ui = window.showDocument({
  url: "openapi.json",
  base: "v1",
  plugins: [storesKey, codeSamples],
  onComplete: authorize,
  responseInterceptor(response) {
    if (response.ok && response.url.startsWith(new URL("v1/", root).href)) keyIsAccepted();
    return response;
  },
});

onKeyChange(() => {
  showNote();
  if (key()) return authorize();
  isRemoved = true;
  window.ui.authActions.logout([SCHEME]);
  isRemoved = false;
});
