"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  root.classList.add("js");

  // Protocol: one attribute decides, the style sheet shows what belongs to it.
  const protocols = all('input[name="protocol"]');
  const setProtocol = () => {
    root.dataset.protocol = protocols.find((p) => p.checked)?.value ?? root.dataset.protocol;
    filter();
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

  form?.addEventListener("input", filter);
  form?.addEventListener("submit", (event) => event.preventDefault());
  form?.addEventListener("reset", () => setTimeout(filter));

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
  byId("previous").addEventListener("click", () => enlarge(current - 1));
  byId("next").addEventListener("click", () => enlarge(current + 1));
  byId("close").addEventListener("click", () => large.close());
  large.addEventListener("click", (event) => { if (event.target === large) large.close(); });
  large.addEventListener("keydown", (event) => {
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

  for (const radio of protocols) radio.addEventListener("change", setProtocol);
  setProtocol();
})();
