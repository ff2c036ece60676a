"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  root.classList.add("js");

  // Protocol: one attribute decides, the style sheet shows what belongs to it.
  const protocols = all('input[name="protocol"]');
  const main = root.dataset.protocol;
  const setProtocol = () => {
    root.dataset.protocol = protocols.find((p) => p.checked)?.value ?? root.dataset.protocol;
    filter();
  };

  // The address keeps protocol and filters, so that a view can be sent as a link. Sections keep the part behind #.
  const remember = () => {
    const kept = new URLSearchParams();
    if (root.dataset.protocol !== main) kept.set("protocol", root.dataset.protocol);
    for (const field of form?.elements ?? []) {
      const name = field.dataset.facet ? `facet.${field.dataset.facet}` : field.name;
      if (field.name === "boxes") { if (!field.checked) kept.set("boxes", "no"); }
      else if (name && field.value && (field.type !== "radio" || field.checked)) kept.set(name, field.value);
    }
    const query = kept.toString();
    try { history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash); } catch { /* a page without an address of its own */ }
  };
  const recall = () => {
    const kept = new URLSearchParams(location.search);
    for (const radio of protocols) radio.checked = radio.value === (kept.get("protocol") ?? main);
    if (!protocols.some((p) => p.checked) && protocols.length) protocols.find((p) => p.value === main).checked = true;
    for (const field of form?.elements ?? []) {
      const name = field.dataset.facet ? `facet.${field.dataset.facet}` : field.name;
      if (!kept.has(name)) continue;
      if (field.name === "boxes") field.checked = kept.get(name) !== "no";
      else if (field.type === "radio") field.checked = field.value === kept.get(name);
      else field.value = kept.get(name);
      if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = "";
    }
  };

  // Gallery
  const form = byId("filters");
  const tiles = all("#tiles > .tile").map((element) => ({
    element,
    facets: JSON.parse(element.dataset.facets),
    outcomes: JSON.parse(element.dataset.outcomes),
    classes: element.dataset.classes && JSON.parse(element.dataset.classes),
    text: element.querySelector(".words").textContent.toLowerCase(),
  }));
  let visible = tiles;

  function filter() {
    if (!form) return;
    const wanted = new FormData(form);
    const words = (wanted.get("text") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const facets = all("select[data-facet]", form).filter((select) => select.value);
    const outcomesOf = (tile) => tile.outcomes[root.dataset.protocol] ?? [];
    const classesOf = (tile) => tile.classes?.[root.dataset.protocol] ?? [];
    const fits = tiles.filter((tile) =>
      (!wanted.get("run") || tile.element.dataset.run === wanted.get("run")) &&
      facets.every((select) => (tile.facets[select.dataset.facet] ?? []).includes(select.value)) &&
      (!wanted.get("class") || classesOf(tile).includes(wanted.get("class"))) &&
      words.every((word) => tile.text.includes(word)));
    visible = fits.filter((tile) => !wanted.get("outcome") || outcomesOf(tile).includes(wanted.get("outcome")));
    const shown = new Set(visible);
    for (const tile of tiles) tile.element.hidden = !shown.has(tile);
    for (const output of all("output[data-count]", form)) {
      output.value = fits.filter((tile) => outcomesOf(tile).includes(output.dataset.count)).length;
    }
    byId("gallery-count").value = `${visible.length} of ${tiles.length} ${byId("tiles").dataset.what} shown`;
    byId("nothing").hidden = visible.length > 0;
    byId("tiles").classList.toggle("bare", !wanted.get("boxes"));
  }

  form?.addEventListener("input", () => { filter(); remember(); });
  form?.addEventListener("submit", (event) => event.preventDefault());
  form?.addEventListener("reset", () => setTimeout(() => { filter(); remember(); }));

  // One tile at a time, with the verdicts of all protocols
  const large = byId("large");
  let current = 0;
  const enlarge = (index) => {
    current = (index + visible.length) % visible.length;
    const copy = visible[current].element.cloneNode(true);
    for (const button of all(".picture", copy)) {
      const frame = document.createElement("div");
      frame.className = "picture";
      frame.append(...button.childNodes);
      button.replaceWith(frame);
    }
    byId("large-tile").replaceChildren(copy);
    if (!large.open) large.showModal();
  };
  byId("tiles")?.addEventListener("click", (event) => {
    const element = event.target.closest(".picture")?.closest(".tile");
    if (element) enlarge(visible.findIndex((tile) => tile.element === element));
  });
  byId("previous")?.addEventListener("click", () => enlarge(current - 1));
  byId("next")?.addEventListener("click", () => enlarge(current + 1));
  byId("close")?.addEventListener("click", () => large.close());
  large?.addEventListener("click", (event) => { if (event.target === large) large.close(); });
  large?.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") enlarge(current - 1);
    if (event.key === "ArrowRight") enlarge(current + 1);
  });

  // Numbers
  for (const button of all("[data-download]")) {
    button.addEventListener("click", () => {
      const numbers = JSON.parse(byId("numbers").textContent);
      const csv = button.dataset.download === "csv";
      const text = csv ? numbers.csv : JSON.stringify(numbers.scores, null, 1);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: csv ? "text/csv" : "application/json" }));
      link.download = csv ? "scores.csv" : "scores.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // Tables: a button in each head sorts its column up, down, and back to how the page has it.
  const text = (cell) => (cell.querySelector(".value") ?? cell).textContent.trim();
  const number = (words) => {
    const found = words.replaceAll("−", "-").replace(/^p |[,<%+]/g, "").match(/^-?\d+(\.\d+)?/);
    return found ? Number(found[0]) : null;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null && x !== y) return x - y;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  const undefinedText = (words) => words === "" || words === "–";
  for (const table of all("table:has(thead)")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    if (table.tHead.rows.length > 1 || table.tBodies.length !== 1 || body.rows.length < 3) continue;
    if (heads.some((head) => head.colSpan > 1) || [...body.rows].some((row) => row.cells.length !== heads.length)) continue;
    // A row and the adjusted ones below it stay together; references stay at the end.
    const groups = [];
    for (const row of body.rows) {
      if (row.classList.contains("adjusted") && groups.length) groups.at(-1).push(row);
      else groups.push([row]);
    }
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const next = { null: "ascending", ascending: "descending" }[before] ?? null;
        for (const other of heads) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        table.classList.toggle("sorted", next !== null);
        const key = (group) => text(group[0].cells[column]);
        const last = (group) => (group[0].classList.contains("reference") ? 2 : undefinedText(key(group)) ? 1 : 0);
        const order = next === null ? groups : [...groups].sort((a, b) =>
          last(a) - last(b) || (next === "ascending" ? 1 : -1) * compare(key(a), key(b)));
        body.append(...order.flat());
      });
    });
  }

  // Commands
  for (const button of all("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = button.parentElement.querySelector("code");
      try { await navigator.clipboard.writeText(source.textContent); } catch {
        getSelection().selectAllChildren(source);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  for (const radio of protocols) radio.addEventListener("change", () => { setProtocol(); remember(); });
  recall();
  setProtocol();
})();
