"use strict";
(() => {
  const every = (selector, of = document) => Array.from(of.querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  const told = byId("told");

  // A choice shows one panel of its section.
  for (const select of every("select[data-picks]")) {
    const show = () => {
      for (const option of select.options) byId(option.value).hidden = option.value !== select.value;
    };
    select.addEventListener("change", show);
    show(); // a browser keeps what was chosen when a page is loaded again
  }

  // Sorting: numbers as numbers, what has no number behind them, then words.
  const list = byId("list");
  const lines = list ? Array.from(list.tBodies[0].rows) : [];
  const key = (row, at) => {
    const text = row.cells[at].textContent.trim();
    const number = text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
    return text === "" || text === "-" ? [2, 0, ""] : Number.isNaN(number) ? [1, 0, text] : [0, number, ""];
  };
  const compare = (a, b) => a[0] - b[0] || (a[1] === b[1] ? 0 : a[1] < b[1] ? -1 : 1) || (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0);
  const sort = (button) => {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of every("th[aria-sort]", list)) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = lines.map((row) => [key(row, head.cellIndex), row]);
    keyed.sort((a, b) => (down && a[0][0] === 0 && b[0][0] === 0 ? compare(b[0], a[0]) : down && a[0][0] === b[0][0] ? compare(b[0], a[0]) : compare(a[0], b[0])));
    list.tBodies[0].append(...keyed.map((pair) => pair[1]));
    say(`sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`);
  };

  // Searching: words with "=" are an axis and its value, or a range of numbers; other words are looked for anywhere.
  const find = byId("find");
  const kind = byId("kind");
  const words = new Map();
  const axes = (row) => {
    if (!words.has(row)) {
      const inside = row.cells[row.cells.length - 1].textContent.replace(/^[^[]*\[?|\]?$/g, "");
      const pairs = new Map(`${inside},${(row.dataset.more || "").replaceAll(" ", ",")}`.split(",").map((text) => text.split("=")));
      pairs.set("provider", row.cells[1].textContent.trim().replaceAll(" ", "_"));
      words.set(row, { pairs, text: row.textContent.toLowerCase() });
    }
    return words.get(row);
  };
  const fits = (row, wanted) => {
    const { pairs, text } = axes(row);
    return wanted.every((word) => {
      const [axis, value] = word.split("=");
      if (value === undefined || !pairs.has(axis)) return text.includes(word.toLowerCase());
      const range = value.split("..").map(Number);
      const own = pairs.get(axis);
      return own === value || (range.length === 2 && range[0] <= Number(own) && Number(own) <= range[1]);
    });
  };
  const say = (more) => {
    const left = lines.filter((row) => !row.hidden).length;
    if (told) told.textContent = `${left} of ${lines.length} cases${more ? `, ${more}` : ""}`;
  };
  const search = () => {
    const wanted = find.value.split(/\s+/).filter(Boolean);
    for (const row of lines) row.hidden = !((!kind.value || row.classList.contains(kind.value)) && fits(row, wanted));
    say("");
  };
  if (list) {
    every(".search").forEach((part) => (part.hidden = false));
    every("button[data-sort]", list).forEach((button) => button.addEventListener("click", () => sort(button)));
    let waiting = 0;
    find.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(search, 120);
    });
    kind.addEventListener("change", search);
    for (const link of every("a[data-find]"))
      link.addEventListener("click", (event) => {
        event.preventDefault(); // following the link would take the focus away from the search
        find.value = link.dataset.find;
        kind.value = "";
        search();
        byId("cases").scrollIntoView();
        find.focus({ preventScroll: true });
      });
    search();
  }

  // Copying: where the clipboard is closed, the text is selected.
  for (const button of every("button[data-copy]")) {
    const source = byId(button.dataset.copy);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  // Light, dark, or as the system has it.
  const theme = byId("theme");
  const names = { "": "as the system", light: "light", dark: "dark" };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const order = Object.keys(names);
    const next = order[(order.indexOf(document.documentElement.dataset.theme || "") + 1) % order.length];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    theme.textContent = `Theme: ${names[next]}`;
  });
})();
