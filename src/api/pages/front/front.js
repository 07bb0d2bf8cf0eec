// Comfort for the front page: the address as the browser knows it, and buttons that copy.
if (document.body.dataset.base === "guessed") {
  const base = new URL("v1", document.baseURI).href;
  for (const place of document.querySelectorAll("[data-address]")) place.textContent = base;
}

const said = document.getElementById("said");

for (const command of document.querySelectorAll(".command")) {
  const code = command.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet slim";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${command.dataset.name}`);
  button.addEventListener("click", async () => {
    const done = await copied(code);
    button.textContent = done ? "Copied" : "Press Ctrl-C";
    said.textContent = done ? `Copied: ${command.dataset.name}` : "Selected. Copy it with Ctrl-C.";
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
  command.append(button);
}

// The clipboard is there in secure contexts only; elsewhere the command is selected.
async function copied(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return false;
  }
}
