"use strict";
(() => {
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const preferred = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const stored = () => { try { return localStorage.getItem("bitrift-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme ?? preferred()) === "dark";
  const label = () => { button.textContent = dark() ? "Light page" : "Dark page"; };
  if (["dark", "light"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    const chosen = dark() ? "light" : "dark";
    root.dataset.theme = chosen;
    try {
      if (chosen === preferred()) localStorage.removeItem("bitrift-theme");
      else localStorage.setItem("bitrift-theme", chosen);
    } catch { /* the page forgets it */ }
    label();
  });

  // A cell sorts by data-sort, else by its text; numbers sort as numbers.
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.append(...head.childNodes);
      head.append(sorter);
      head.setAttribute("aria-sort", "none");
      sorter.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        const rows = [...table.tBodies[0].rows].map((row) => [key(row, column), row]);
        rows.sort((a, b) => (falling ? -1 : 1) * compare(a[0], b[0]));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      });
    });
  }

  // Paper has no folded parts.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
