// How orval's client sends requests: to the address in their options.
import type { Send } from "./scenario.js";

export interface Options extends RequestInit {
  base: string;
  send?: Send;
}

export async function send<T>(path: string, init?: RequestInit): Promise<T> {
  const { base, send = fetch, ...rest } = init as Options;
  const response = await send(new Request(base + path, rest));
  const text = await response.text();
  return { status: response.status, headers: response.headers, data: text ? JSON.parse(text) : undefined } as T;
}
