// The key of this tab. Other open tabs of the same service get it, so that it is typed once.

/** The address of the service, with its path prefix. */
export const root = new URL("..", import.meta.url);

const STORED_KEY = `gene-registry.key ${root.pathname}`;
const [WHICH, FORGET] = ["which", "forget"];
const tabs = new BroadcastChannel(STORED_KEY);
const changes = new EventTarget();
/** Whether the service has accepted the key since this page was opened. */
let isAccepted = false;

export const key = () => sessionStorage.getItem(STORED_KEY);

/** Whether a header can carry the value; the service would refuse any other. */
export const canBeKey = (value) => /^[\x21-\x7e]{1,256}$/.test(value);

/** The beginning of the key, enough to recognize it. */
export const abbreviate = (value) => `${value.slice(0, Math.min(11, value.length / 2))}…`;

/** Stores a key in this tab. */
export function storeKey(value) {
  isAccepted = false;
  sessionStorage.setItem(STORED_KEY, value);
}

/** Removes the key from this tab. */
export function dropKey() {
  isAccepted = false;
  sessionStorage.removeItem(STORED_KEY);
}

/** Removes the key from all tabs. */
export function forgetKey() {
  dropKey();
  tabs.postMessage(FORGET);
}

/** The service has accepted the key: other tabs that have none get it. */
export function keyIsAccepted() {
  if (isAccepted || !key()) return;
  isAccepted = true;
  tabs.postMessage({ key: key() });
}

/** Calls `action` when another tab has handed over its key, or had the key removed. */
export const onKeyChange = (action) => changes.addEventListener("change", action);

tabs.addEventListener("message", ({ data }) => {
  if (data === WHICH) {
    if (isAccepted) tabs.postMessage({ key: key() });
    return;
  }
  if (data === FORGET && key()) dropKey();
  else if (!key() && typeof data?.key === "string" && canBeKey(data.key)) storeKey(data.key);
  else return;
  changes.dispatchEvent(new Event("change"));
});

if (!key()) tabs.postMessage(WHICH);
