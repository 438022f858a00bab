"use strict";
for (const lines of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    const text = lines.querySelector("code");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    } catch {
      getSelection().selectAllChildren(text);
    }
  });
  lines.append(button);
}
