"""Provides STYLE and SCRIPT of a hub's page: two papers to choose from, tables that filter and sort."""

from __future__ import annotations

from costhub.cards.svg import DARK, LIGHT

STYLE = f"""\
:root:has(#theme-light:checked) {{ {LIGHT} color-scheme: light; }}
:root:has(#theme-dark:checked) {{ {DARK} color-scheme: dark; }}
body {{ max-width: 78rem; }}
a {{ color: var(--series-0); }} :target {{ scroll-margin-top: 5rem; }}
nav a {{ margin-right: 1rem; white-space: nowrap; }}
.bar {{ display: flex; flex-wrap: wrap; gap: 0.6rem 2rem; align-items: center; padding: 0.6rem 0;
  position: sticky; top: 0; z-index: 2; background: var(--paper); border-bottom: 1px solid var(--faint); }}
.bar fieldset {{ border: 0; margin: 0; padding: 0; display: flex; gap: 0.7rem; flex-wrap: wrap; }}
.bar legend {{ float: left; padding: 0; margin-right: 0.7rem; }}
input[type=search] {{ font: inherit; width: min(22rem, 90vw); padding: 0.25rem 0.5rem; color: var(--ink);
  background: var(--paper); border: 1px solid color-mix(in srgb, var(--ink) 60%, var(--paper));
  border-radius: 4px; }}
.under {{ display: block; font-weight: normal; }} [hidden] {{ display: none !important; }}
.nothing {{ display: none; }} .empty > .nothing {{ display: block; }} .empty > .scroll {{ display: none; }}
.sort {{ width: 100%; border-collapse: separate; border-spacing: 0; }}
.sort th, .sort td {{ vertical-align: top; padding: 0.3rem 0.7rem; }}
.sort th[scope=row] {{ position: sticky; left: 0; background: var(--paper); overflow-wrap: anywhere;
  min-width: 8.5rem; }}
.sort td {{ background: color-mix(in srgb, var(--series-0) var(--shade, 0%), var(--paper)); }}
.sort td .under {{ white-space: nowrap; }} .sort td[style] .under {{ color: inherit; }}
.sort td:has(.copy) {{ white-space: nowrap; }}
.sort thead button {{ all: unset; cursor: pointer; }}
.sort thead button:hover {{ text-decoration: underline; }}
th[aria-sort=ascending] button::after {{ content: " \\2191"; }}
th[aria-sort=descending] button::after {{ content: " \\2193"; }}
.copy {{ font: inherit; font-size: 0.8rem; cursor: pointer; color: var(--ink); background: var(--paper);
  border: 1px solid color-mix(in srgb, var(--ink) 60%, var(--paper)); border-radius: 4px; }}
:focus-visible {{ outline: 2px solid var(--series-0) !important; outline-offset: 2px; }}
details {{ border-bottom: 1px solid var(--faint); padding: 0.4rem 0; }} summary h3 {{ display: inline; }}
.card {{ padding: 0 1rem 1rem; overflow-wrap: anywhere; }} .card h4 {{ font-size: 1.05rem; }}
.card h5, .card h6 {{ font-size: 0.95rem; margin: 1.4rem 0 0.4rem; }} pre {{ overflow-wrap: normal; }}
img {{ max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr));
  gap: 1rem; }}
@media (max-width: 40rem) {{ body {{ margin-top: 1rem; }}
  .bar {{ position: static; }} .sort th[scope=row] {{ min-width: 8rem; max-width: 9rem; }} }}
"""
"""What the page adds to the style sheet of all pages."""

SCRIPT = """\
"use strict";
(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const box = document.getElementById("q"), said = document.getElementById("said");
  const found = all("[data-terms]").map((item) => {
    const text = item.dataset.terms + (item.tagName === "TR" ? " " + item.textContent : "");
    return [item, text.toLowerCase()];
  });

  function filter() {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let fit = 0;
    for (const [item, text] of found) {
      item.hidden = !words.every((word) => text.includes(word));
      fit += item.hidden ? 0 : 1;
    }
    for (const group of all("section")) {
      const items = [...group.querySelectorAll("[data-terms]")];
      group.classList.toggle("empty", items.length > 0 && items.every((item) => item.hidden));
    }
    said.textContent = words.length ? `${fit} of ${found.length} entries fit` : "";
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
"""
"""What the page runs; without it all is shown, unsorted, and the papers can still be chosen."""
