// Copies the text of an element.

import { announce } from "./dom.js";

/** Whether it was copied. The clipboard exists only in secure contexts; elsewhere the text is selected. */
export async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}

/** Says on the button and to screen readers that it was copied, or how to copy it. */
export function showCopied(button, done, what) {
  announce(done ? `Copied: ${what}` : "Selected. Press Ctrl-C to copy it.");
  button.textContent = done ? "Copied" : "Press Ctrl-C";
  setTimeout(() => { button.textContent = "Copy"; }, 2500);
}
