"use strict";
(() => {
  const board = JSON.parse(document.getElementById("board").textContent);
  const table = document.querySelector("table.board");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const at = (id) => document.getElementById(id);
  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // ---- filters; kept in the address, so that a view can be shared
  const search = at("search"), references = at("references");
  const suites = [...document.querySelectorAll('input[name="suite"]')];
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    for (const row of rows) {
      const hit = row.dataset.model.toLowerCase().includes(wanted);
      row.hidden = !hit || (!references.checked && "reference" in row.dataset);
    }
    const shown = new Set(suites.filter((box) => box.checked).map((box) => box.value));
    for (const cell of table.querySelectorAll("[data-suite]")) cell.hidden = !shown.has(cell.dataset.suite);
    for (const head of table.querySelectorAll("[data-group]")) head.hidden = !shown.has(head.dataset.group);
    const n = rows.filter((row) => !row.hidden).length;
    at("shown").textContent = n < rows.length ? `${n} of ${rows.length} rows` : "";
    keep();
  };

  // ---- sorting
  let order = { by: "", down: false };
  const sort = (by, down) => {
    order = { by, down };
    const value = (row) => {
      if (by === "name") return row.dataset.model.toLowerCase();
      const text = row.querySelectorAll("td[data-suite]")[Number(by)].dataset.value;
      return text === "" ? null : Number(text);
    };
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);  // without a value: last either way
      return (x < y ? -1 : x > y ? 1 : rows.indexOf(a) - rows.indexOf(b)) * (down ? -1 : 1);
    });
    if (by !== "") body.append(...sorted);
    for (const button of table.querySelectorAll("button.sort")) {
      const head = button.closest("th");
      if (button.dataset.sort === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    keep();
  };
  for (const button of table.querySelectorAll("button.sort")) {
    button.addEventListener("click", () => {
      const by = button.dataset.sort;
      const best = by === "name" ? false : board.columns[Number(by)].better === "higher";  // the best first
      sort(by, order.by === by ? !order.down : best);
    });
  }

  // ---- tests of every pair
  const choose = (id, start) => {
    const select = at(id);
    board.columns.forEach((column, n) => select.append(make("option", `${column.suite}: ${column.label}`, { value: n })));
    select.selectedIndex = Math.min(start, board.columns.length - 1);
    return select;
  };
  // At first, numbers that two rows have: there is something to see.
  const filled = board.columns.map((column, n) => n).filter((n) => board.rows.filter((row) => row.cells[board.columns[n].key].state === "ok").length > 1);
  const first = filled[0] ?? 0, second = filled[1] ?? filled[0] ?? 1;
  const winColumn = choose("win-column", first), xColumn = choose("x-column", first), yColumn = choose("y-column", second);
  const drawWins = () => {
    const column = board.columns[winColumn.selectedIndex];
    const grid = make("table");
    const head = grid.createTHead().insertRow();
    head.append(make("td"));
    for (const name of column.ranked) head.append(make("th", name, { scope: "col" }));
    const inner = grid.createTBody();
    column.ranked.forEach((name, i) => {
      const line = inner.insertRow();
      line.append(make("th", name, { scope: "row" }));
      column.ranked.forEach((_, j) => {
        const cell = line.insertCell(), p = column.p_holm[i][j], won = column.wins[i][j];
        if (i === j || p === null) return;
        cell.append(make("span", won > 0 ? "▲" : won < 0 ? "▼" : "·", { class: won > 0 ? "win" : won < 0 ? "loss" : "" }));
        cell.append(make("span", won > 0 ? "better" : won < 0 ? "worse" : "no difference found", { class: "away" }));
        cell.append(make("span", p < 0.001 ? "p < 0.001" : `p ${p.toFixed(3)}`, { class: "p" }));
      });
    });
    at("win-table").replaceChildren(column.ranked.length > 1 ? grid : make("p", "Fewer than two ranked models have this number."));
    keep();
  };

  // ---- two metrics at once
  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  // Round numbers inside a span, some five of them.
  const ticks = (low, high) => {
    const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
    return found;
  };
  // A name beside its point: the first place that is inside, and free of points and of other names.
  const beside = (figure, text, point, taken, inside) => {
    figure.append(text);
    const wide = text.getComputedTextLength(), high = 15;
    const places = [0, 16, -16, 32, -32, 48, -48].flatMap((down) => [[9, down - 8], [-9 - wide, down - 8], [9, down + 16], [-9 - wide, down + 16]]);
    const boxes = places.map(([dx, dy]) => ({ x: point.x + dx, y: point.y + dy - 12, w: wide, h: high }));
    const fits = (box) => box.x >= inside.left && box.x + box.w <= inside.right && box.y >= inside.top && box.y + box.h <= inside.bottom;
    const meets = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
    const box = boxes.find((b) => fits(b) && !taken.some((t) => meets(b, t))) || boxes.find(fits) || boxes[0];
    text.setAttribute("x", box.x);
    text.setAttribute("y", box.y + 12);
    taken.push(box);
    if (boxes.indexOf(box) < 4) return;
    // Too far to be told by its place: a line leads to the point.
    const end = { x: Math.max(box.x, Math.min(point.x, box.x + box.w)), y: box.y > point.y ? box.y : box.y + box.h };
    figure.insertBefore(svg("line", { x1: point.x, y1: point.y, x2: end.x, y2: end.y, class: "leader" }), text);
  };
  const drawPareto = () => {
    const columns = [board.columns[xColumn.selectedIndex], board.columns[yColumn.selectedIndex]];
    const points = board.rows
      .map((row) => ({ name: row.name, ranked: !row.reference, scores: columns.map((c) => row.cells[c.key].state === "ok" ? row.cells[c.key].score : null) }))
      .filter((p) => p.scores.every(Boolean));
    const plot = at("pareto-plot");
    if (points.length === 0) { plot.replaceChildren(make("p", "No model has both numbers.")); keep(); return; }
    // As wide as there is room, so that letters keep their size on a small screen.
    const width = Math.max(280, Math.min(736, Math.floor(plot.clientWidth) || 640)), height = Math.max(320, Math.round(width * 0.62));
    const left = 78, right = 20, top = 16, bottom = 66;
    const scale = columns.map((column, k) => {
      const ends = points.flatMap((p) => [p.scores[k].value, p.scores[k].ci_low, p.scores[k].ci_high].filter((v) => v !== null));
      const low = Math.min(...ends), high = Math.max(...ends), pad = (high - low || 1) * 0.06;
      return [low - pad, high + pad];
    });
    const x = (v) => left + (v - scale[0][0]) / (scale[0][1] - scale[0][0]) * (width - left - right);
    const y = (v) => height - bottom - (v - scale[1][0]) / (scale[1][1] - scale[1][0]) * (height - top - bottom);
    const words = (v, k) => Number(((columns[k].unit === "share" ? 100 : 1) * v).toPrecision(3)).toString();
    const sign = columns.map((c) => c.better === "higher" ? 1 : -1);
    const beats = (a, b) => {
      const gain = sign.map((s, k) => s * (a.scores[k].value - b.scores[k].value));
      return gain.every((g) => g >= 0) && gain.some((g) => g > 0);
    };
    const ranked = points.filter((p) => p.ranked);
    const front = ranked.filter((p) => !ranked.some((q) => beats(q, p)));
    const label = columns.map((c) => [`${c.suite}: ${c.label}`, `${c.unit === "share" ? "%" : c.unit}, ${c.better} is better`]);
    const figure = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label[1].join(", ")}, against ${label[0].join(", ")}. On the Pareto front: ${front.map((p) => p.name).join(", ")}` });
    plot.replaceChildren(figure);
    for (const u of ticks(...scale[0])) {
      figure.append(svg("line", { x1: x(u), x2: x(u), y1: top, y2: height - bottom, class: "grid" }), svg("text", { x: x(u), y: height - bottom + 18, "text-anchor": "middle", class: "soft" }, words(u, 0)));
    }
    for (const v of ticks(...scale[1])) {
      figure.append(svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }), svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "soft" }, words(v, 1)));
    }
    // The selects above hold the whole name of a metric that is too long for its axis.
    const fitted = (text, room) => {
      for (let n = text.textContent.length; n > 4 && text.getComputedTextLength() > room; n--) text.textContent = `${text.textContent.slice(0, n - 2).trimEnd()}…`;
    };
    label[0].forEach((words, n) => {
      const text = svg("text", { x: (left + width - right) / 2, y: height - 26 + 17 * n, "text-anchor": "middle", class: n ? "soft" : "" }, words);
      figure.append(text);
      fitted(text, width - left - right);
    });
    label[1].forEach((words, n) => {
      const text = svg("text", { x: -(top + height - bottom) / 2, y: 14 + 17 * n, transform: "rotate(-90)", "text-anchor": "middle", class: n ? "soft" : "" }, words);
      figure.append(text);
      fitted(text, height - top - bottom + 20);
    });
    const line = [...front].sort((a, b) => a.scores[0].value - b.scores[0].value).map((p) => `${x(p.scores[0].value)},${y(p.scores[1].value)}`);
    figure.append(svg("polyline", { points: line.join(" "), class: "frontline" }));
    const spots = points.map((p) => ({ x: x(p.scores[0].value), y: y(p.scores[1].value) }));
    const taken = spots.map((s) => ({ x: s.x - 6, y: s.y - 6, w: 12, h: 12 }));
    for (const p of points) {
      const [a, b] = p.scores;
      if (a.ci_low !== null) figure.append(svg("line", { x1: x(a.ci_low), x2: x(a.ci_high), y1: y(b.value), y2: y(b.value), class: "bars" }));
      if (b.ci_low !== null) figure.append(svg("line", { x1: x(a.value), x2: x(a.value), y1: y(b.ci_low), y2: y(b.ci_high), class: "bars" }));
      figure.append(svg("circle", { cx: x(a.value), cy: y(b.value), r: 5, class: front.includes(p) ? "front" : "" }));
    }
    points.forEach((p, n) => beside(figure, svg("text", { class: "name" }, p.ranked ? p.name : `${p.name} (reference)`), spots[n], taken, { left, right: width - 2, top: 0, bottom: height - bottom }));
    keep();
  };

  // ---- the address
  let ready = false;
  const keep = () => {
    if (!ready) return;
    const state = new URLSearchParams();
    if (search.value) state.set("q", search.value);
    const off = suites.filter((box) => !box.checked).map((box) => box.value);
    for (const name of off) state.append("hide", name);
    if (!references.checked) state.set("references", "0");
    if (order.by !== "") { state.set("sort", order.by); state.set("down", order.down ? "1" : "0"); }
    state.set("wins", winColumn.selectedIndex);
    state.set("x", xColumn.selectedIndex); state.set("y", yColumn.selectedIndex);
    try { history.replaceState(null, "", `#${state}`); } catch { /* a page that is shown inside another */ }
  };
  const restore = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    search.value = state.get("q") || "";
    const off = new Set(state.getAll("hide"));
    for (const box of suites) box.checked = !off.has(box.value);
    references.checked = state.get("references") !== "0";
    const pick = (select, key) => {
      const n = Number(state.get(key));
      if (state.has(key) && Number.isInteger(n) && n >= 0 && n < board.columns.length) select.selectedIndex = n;
    };
    pick(winColumn, "wins"); pick(xColumn, "x"); pick(yColumn, "y");
    filter(); drawWins(); drawPareto();
    const by = state.get("sort");
    if (by === "name" || (by !== null && board.columns[Number(by)])) sort(by, state.get("down") === "1");
    ready = true;
  };
  search.addEventListener("input", filter);
  references.addEventListener("change", filter);
  for (const box of suites) box.addEventListener("change", filter);
  winColumn.addEventListener("change", drawWins);
  xColumn.addEventListener("change", drawPareto);
  yColumn.addEventListener("change", drawPareto);
  let drawn = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== drawn) { drawn = innerWidth; drawPareto(); } });
  at("controls").hidden = false;
  for (const section of document.querySelectorAll(".drawn")) section.hidden = false;
  restore();
})();
