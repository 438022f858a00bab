"use strict";
(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const box = document.getElementById("q"), status = document.getElementById("status");
  const entries = all("[data-terms]").map((item) => {
    const text = item.dataset.terms + (item.tagName === "TR" ? " " + item.textContent : "");
    return [item, text.toLowerCase()];
  });

  function filter() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [item, text] of entries) {
      item.hidden = !words.every((word) => text.includes(word));
      shown += item.hidden ? 0 : 1;
    }
    for (const group of all("section")) {
      const items = [...group.querySelectorAll("[data-terms]")];
      group.classList.toggle("empty", items.length > 0 && items.every((item) => item.hidden));
    }
    status.textContent = words.length ? `${shown} of ${entries.length} entries match` : "";
  }

  function keep() {
    const address = new URL(location.href);
    if (box.value.trim()) address.searchParams.set("q", box.value.trim());
    else address.searchParams.delete("q");
    try { history.replaceState(null, "", address); } catch { /* some browsers fix the address of a file */ }
  }

  function sortBy(table, head, column) {
    const numbers = head.classList.contains("right");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const rows = [...table.tBodies[0].rows].sort((left, right) => {
      const [a, b] = [key(left), key(right)];
      if (a === "-" || b === "-") return (a === "-" ? 1 : 0) - (b === "-" ? 1 : 0);
      const order = numbers ? Number(a) - Number(b) : a.localeCompare(b, "en", {numeric: true});
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  for (const table of all("table.sort")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(table, head, column));
      head.replaceChildren(button);
    });
  }

  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
        setTimeout(() => { button.textContent = "copy"; }, 1500);
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
      }
    });
  }

  for (const choice of all("[name=theme]")) {
    try {
      if (localStorage.getItem("costhub-theme") === choice.value) choice.checked = true;
      choice.addEventListener("change", () => localStorage.setItem("costhub-theme", choice.value));
    } catch { break; /* a browser that keeps nothing */ }
  }

  document.getElementById("search").hidden = false;
  box.value = new URL(location.href).searchParams.get("q") ?? "";
  box.addEventListener("input", () => { filter(); keep(); });
  filter();
})();
