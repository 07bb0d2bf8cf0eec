// Conveniences of the front page: the address that the browser knows, and copy buttons.

import { copy, showCopied } from "./copy.js";

if (document.body.dataset.base === "guessed") {
  const base = new URL("v1", document.baseURI).href;
  for (const element of document.querySelectorAll("[data-address]")) element.textContent = base;
}

for (const command of document.querySelectorAll(".command")) {
  const code = command.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet slim";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${command.dataset.name}`);
  button.addEventListener("click", async () => showCopied(button, await copy(code), command.dataset.name));
  command.append(button);
}
