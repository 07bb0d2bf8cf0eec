// Copies the text of an element.

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
