// Conveniences of the front page: the address that the browser knows, and copy buttons.

import { copy } from "./copy.js";

if (document.body.dataset.base === "guessed") {
  const base = new URL("v1", document.baseURI).href;
  for (const element of document.querySelectorAll("[data-address]")) element.textContent = base;
}

const status = document.getElementById("status");

for (const command of document.querySelectorAll(".command")) {
  const code = command.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet slim";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${command.dataset.name}`);
  button.addEventListener("click", async () => {
    const done = await copy(code);
    button.textContent = done ? "Copied" : "Press Ctrl-C";
    status.textContent = done ? `Copied: ${command.dataset.name}` : "Selected. Press Ctrl-C to copy it.";
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
  command.append(button);
}
