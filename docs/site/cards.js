// On a phone, each row of a table is a card: its first cell is the title, and the others stand below, each after the head of its column.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".md-content table:not([class])")) {
    const heads = [...table.querySelectorAll("thead th")].map(head => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, place) => place && heads[place] && (cell.dataset.head = heads[place]));
  }
});
