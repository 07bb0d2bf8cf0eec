// A client of the control API. The token is kept here, in memory, and nowhere else.

let token = null;

export const setToken = (value) => { token = value; };

/** A refused or failed call; the message is for people. */
export class CallError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function call(path, { method = "GET", body } = {}) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body) headers["Content-Type"] = "application/json";
  let response;
  let result;
  try {
    response = await fetch(new URL(`control/v1/${path}`, document.baseURI), { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
    result = await response.json();
  } catch {
    throw new CallError("The service cannot be reached, or did not complete its response. A change may have been made: choose “List again”, and revoke a new key that you have not seen.", 0);
  }
  if (!response.ok) throw new CallError(result.error ?? "The service failed.", response.status);
  return result;
}

const post = (path, body) => call(path, { method: "POST", body });

export const whoami = () => call("whoami");
export const list = (offset, all) => call(`api-keys?${new URLSearchParams({ limit: 50, offset, all })}`);
export const create = (key) => post("api-keys", key);
export const update = (change) => post("api-keys/update", change);
export const rotate = (key) => post("api-keys/rotate", key);
export const revoke = (key) => post("api-keys/revoke", key);
