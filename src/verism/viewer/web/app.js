"use strict";
// State lives in the address: "#/images?run=a&rule=..." can be sent to somebody. Text of runs only ever becomes text.
const main = document.getElementById("main");
const where = document.getElementById("where");
const said = document.getElementById("said");
const keys = document.getElementById("keys");
const PAGE = 48, PAIRS = 20, POLL_MS = 3000;
const WORDS = { right: "Right", wrong: "Wrong", unusable: "No usable answer", undecided: "Not decided" };
const STATES = { scored: "Scored", generating: "Generating", judging: "Not scored yet", damaged: "Damaged" };
let turn = 0, poll = 0, up = null, left = null, right = null, drawBoxes = true;

// ------------------------------------------------------------------------------------------------------------ helpers
function el(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && typeof value !== "string") node[key] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...flat(...children));
  return node;
}
function flat(...children) { return children.flat(9).filter((c) => c !== null && c !== undefined && c !== "" && c !== false); }
function address(path, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values || {}))
    for (const one of [].concat(value)) if (one !== "" && one !== null && one !== undefined) query.append(key, one);
  const text = query.toString();
  return path + (text ? "?" + text : "");
}
const link = (path, values) => "#" + address(path, values);
function state() {
  const [path, query] = location.hash.slice(1).split(/\?(.*)/s);
  return [path || "/", new URLSearchParams(query || "")];
}
async function get(path, values) {
  const reply = await fetch(address(path, values));
  let record;
  try { record = await reply.json(); } catch { record = {}; }
  if (!reply.ok) throw new Error(record.error || `the server answered ${reply.status}`);
  return record;
}
function put(now, title, ...children) {
  if (now !== turn) return false;
  document.title = title + " · verism";
  main.replaceChildren(...children.flat(9).filter(Boolean));
  return true;
}
function crumbs(...parts) {
  where.replaceChildren(...parts.flatMap((p, n) => [n ? " › " : "", p]));
}
const number = (n) => Number(n).toLocaleString("en");
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
function choice(label, options, value, change, attributes) {
  const select = el("select", { onchange: () => change(select.value), ...attributes },
    options.map(([v, text]) => el("option", { value: v, selected: v === value }, text)));
  if (value && !options.some(([v]) => v === value)) select.append(el("option", { value, selected: true }, value));
  return el("label", {}, label, select);
}
function go(path, values) { location.hash = link(path, values); }
function typed(input, change) {
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => change(input.value), 300); });
  input.addEventListener("keydown", (e) => { if (e.key === "Enter") { clearTimeout(timer); change(input.value); } });
}

// ---------------------------------------------------------------------------------------------------------- the list
async function listPage(query, now) {
  crumbs("Runs");
  up = null;
  const picked = new Set();
  let record = await get("/api/runs");
  const search = el("input", { type: "search", id: "search", value: query.get("q") || "", placeholder: "name, model, suite, judge" });
  const list = el("ul.runs", { "aria-label": "Runs" });
  const count = el("p.soft.small", { role: "status" });
  const compare = el("button", { type: "button", disabled: true, onclick: () => { const [a, b] = [...picked]; go("/compare", { a, b }); } }, "Compare two runs");
  const filters = el("div.filters");
  const heading = el("h1", {}, "Runs");
  const plans = el("div"), pages = el("div");
  let offered = "";
  const set = (key, value) => {
    const [, current] = state();
    if (value) current.set(key, value); else current.delete(key);
    history.replaceState(null, "", link("/", Object.fromEntries(current)));
    draw();
  };
  typed(search, (value) => set("q", value));
  function distinct(field) { return [...new Set(record.runs.map((r) => r[field]).filter(Boolean))].sort(); }
  function chooser() {
    // Choices follow the runs that appear, but never change under somebody's hands.
    const now = JSON.stringify(["suite", "model", "state"].map(distinct));
    if (now === offered || filters.contains(document.activeElement)) return;
    offered = now;
    const [, q] = state();
    filters.replaceChildren(
      el("label.wide", {}, "Search", search),
      choice("Suite", [["", "all"], ...distinct("suite").map((s) => [s, s])], q.get("suite") || "", (v) => set("suite", v)),
      choice("Model", [["", "all"], ...distinct("model").map((s) => [s, s])], q.get("model") || "", (v) => set("model", v)),
      choice("State", [["", "all"], ...distinct("state").map((s) => [s, STATES[s]])], q.get("state") || "", (v) => set("state", v)),
      compare);
  }
  function draw() {
    const [, q] = state();
    const words = (q.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const shown = record.runs.filter((r) => ["suite", "model", "state"].every((f) => !q.get(f) || r[f] === q.get(f)) &&
      words.every((w) => [r.name, r.model, r.suite, r.suite_title, ...Object.values(r.judges)].join(" ").toLowerCase().includes(w)));
    count.textContent = `${plural(shown.length, "run")}${shown.length < record.runs.length ? ` of ${number(record.runs.length)}` : ""} below ${record.folder}` +
      (record.truncated ? "; there are more, which are not listed" : "");
    const focused = document.activeElement && document.activeElement.dataset.key;
    list.replaceChildren(...shown.map(runLine));
    plans.replaceChildren(...(record.plans.length ? [el("h2", {}, "Boards"), el("ul.plans", {}, record.plans.map(planLine))] : []));
    if (!shown.length) list.append(el("li.note", {}, record.runs.length ? "No run fits." : "There is no run below this folder yet. Make one with: verism run"));
    pages.replaceChildren(...(record.pages.length ? [el("h2", {}, "Pages"), el("ul", {}, record.pages.map((p) =>
      el("li.pages", {}, pageLink(p))))] : []));
    if (focused) { const e = main.querySelector(`[data-key="${CSS.escape(focused)}"]`); if (e) e.focus(); }
  }
  function runLine(r) {
    const box = el("input", { type: "checkbox", "aria-label": `Choose ${r.name} to compare`, "data-key": "pick " + r.key, checked: picked.has(r.key), disabled: r.state === "damaged",
      onchange: () => { if (box.checked) picked.add(r.key); else picked.delete(r.key); compare.disabled = picked.size !== 2; } });
    return el("li", {}, box,
      el("div", {}, el("a.name", { href: link("/run", { run: r.key }), "data-key": r.key }, r.name),
        el("div.small.soft.made", { title: r.model }, [r.suite_title, r.model].filter(Boolean).join(" · ")),
        el("div.small.soft", {}, r.created.slice(0, 16).replace("T", " "))),
      el("div.scores", {}, stateOf(r), headlines(r.headlines.slice(0, 6))));
  }
  chooser();
  if (!put(now, "Runs", heading, plans, filters, count, list, pages)) return;
  draw();
  poll = setInterval(async () => {
    try {
      const fresh = await get("/api/runs");
      if (now === turn && JSON.stringify(fresh) !== JSON.stringify(record)) { record = fresh; chooser(); draw(); }
    } catch { /* the server was stopped; what is shown stays */ }
  }, POLL_MS);
}
function pageLink(page) {
  return el("a", { href: "/pages/" + page.key.split("/").map(encodeURIComponent).join("/"), target: "_blank", rel: "noopener", "data-key": "page " + page.key }, page.key);
}
function planLine(p) {
  if (p.error) return el("li", {}, el("span.name", {}, p.title), el("p.small.state.damaged", {}, p.error));
  const done = p.counts.done || 0;
  const others = Object.entries(p.counts).filter(([name, n]) => name !== "done" && n).map(([name, n]) => `${number(n)} ${name}`);
  return el("li", {}, done ? el("a.name", { href: address("/board", { plan: p.key }), target: "_blank", rel: "noopener", "data-key": "plan " + p.key }, p.title) : el("span.name", {}, p.title),
    el("span.small.soft", {}, ` ${p.key === "." ? "" : p.key + ": "}${number(done)} of ${plural(p.pairs, "run")} done${others.length ? `, ${others.join(", ")}` : ""} `),
    done < p.pairs ? el("progress", { max: p.pairs || 1, value: done, "aria-label": `Runs of ${p.title}` }) : "",
    p.failed.map((f) => el("p.small", {}, el("span.state.damaged", {}, `${f.pair} failed: `), f.reason)));
}
function headlines(scores) {
  return el("div.numbers", {}, scores.map((s) => el("span", {}, el("span.what", {}, s.title + (s.group_name === "all" ? "" : ", " + s.group_name) + " "),
    el("b", {}, s.value_text), " ", el("span.interval", {}, s.interval_text), s.unit_text && s.value_text !== "–" ? el("span.interval", {}, " " + s.unit_text) : "",
    s.left_out ? el("span.interval", {}, ` † ${s.left_out}`) : "")));
}
function stateOf(r) {
  const word = el("span.state." + r.state, {}, STATES[r.state] + (r.active ? ", running" : r.state === "generating" || r.state === "judging" ? ", not running" : ""));
  if (r.state === "damaged") return el("div", {}, word, el("p.small", {}, r.error));
  const p = r.progress;
  const other = Object.entries(p.states).filter(([name]) => name !== "ok").map(([name, n]) => `${number(n)} ${name}`);
  const parts = [word, el("span.small.soft", {}, ` ${number(p.done)} of ${plural(p.asked, "image")}` + (other.length ? ` (${other.join(", ")})` : ""))];
  if (p.done < p.asked) parts.push(" ", el("progress", { max: p.asked || 1, value: p.done, "aria-label": `Images of ${r.name}` }));
  if (r.state === "judging" || r.state === "generating")
    for (const j of p.judged) parts.push(el("div.small.soft", {}, `${j.judge}: ${number(j.images)} of ${number(p.asked)} `, el("progress", { max: p.asked || 1, value: j.images, "aria-label": `Images seen by ${j.judge}` })));
  return el("div", {}, parts);
}

// ------------------------------------------------------------------------------------------------------------- a run
async function runPage(query, now) {
  const key = query.get("run");
  crumbs(el("a", { href: "#/" }, "Runs"), key);
  up = () => go("/");
  const record = await get("/api/run", { run: key });
  const protocols = (record.protocols || []).map((p) => p.name);
  const protocol = protocols.includes(query.get("protocol")) ? query.get("protocol") : protocols[0] || "";
  const progress = el("div", {}, stateOf(record));
  const facts = el("p.lead", {}, [record.suite_title, record.model, ...Object.entries(record.judges).map(([k, v]) => `${k}: ${v}`)].filter(Boolean).join(" · "));
  const body = [el("h1", {}, record.name), facts, progress];
  if (record.state === "damaged") { put(now, record.name, body, el("div.banner.error", { role: "alert" }, el("p", {}, "This run cannot be read."))); return; }
  const cautions = el("div");
  body.push(el("div.actions", {},
    el("a.button.main", { href: link("/images", { run: key }) }, `Images (${number(record.progress.done)})`),
    record.right_or_wrong ? el("a.button", { href: link("/images", { run: key, outcome: "wrong", protocol }) }, "What is wrong") : "",
    protocols.length ? el("a.button", { href: address("/report", { run: key }), target: "_blank", rel: "noopener" }, "Full report") : ""),
    record.pages.length ? el("p.small.pages", {}, "Saved pages: ", record.pages.map((p, n) => [n ? ", " : "", pageLink(p)])) : "", cautions);
  if (record.remarks && record.remarks.length) body.push(el("div.banner", {}, record.remarks.map((line) => el("p", {}, line))));
  if (protocols.length) {
    const meaning = record.protocols.find((p) => p.name === protocol).meaning;
    body.push(el("h2", { id: "scores" }, "Scores"), protocols.length > 1 ? el("div.filters", {}, choice("Protocol", protocols.map((p) => [p, p]), protocol, (v) => go("/run", { run: key, protocol: v }))) : "",
      meaning ? el("p.small.soft", {}, meaning) : "", scoreTable(record.tables[protocol], key, protocol));
    const detailed = record.breakdowns[protocol];
    if (detailed.length) body.push(el("details.more", {}, el("summary", {}, `Breakdowns (${plural(detailed.length, "row")})`), scoreTable(detailed, key, protocol)));
    body.push(el("details.more", {}, el("summary", {}, "What the metrics mean"), el("dl.facts", {}, record.metrics.map((m) => [el("dt", {}, m.title), el("dd", {}, m.meaning + (m.source ? ` (${m.source})` : ""))]))));
    if (record.limits.length) body.push(el("h2", {}, "What these numbers do not say"), el("ul", {}, record.limits.map((l) => el("li", {}, l))));
  } else body.push(el("p.note", {}, "This run has no scores yet."));
  const provenance = el("details.more", {}, el("summary", {}, "Provenance"));
  let loaded = false;
  async function fetchProvenance() {
    if (loaded) return;
    loaded = true;
    try {
      const p = await get("/api/provenance", { run: key });
      cautions.replaceChildren(...(p.cautions.length ? [el("div.banner", {}, p.cautions.map((line) => el("p", {}, line)))] : []));
      provenance.append(...p.sections.flatMap((s) => [el("h3", {}, s.title), scrolling(s.title, el("table", {}, el("tbody", {}, s.rows.map((r) => el("tr", {}, el("th", { scope: "row" }, r.name), el("td.value", {}, r.values[0]))))))]));
    } catch (err) { provenance.append(el("p.note", {}, err.message)); }
  }
  if (protocols.length) body.push(provenance);
  if (!put(now, record.name, body)) return;
  if (protocols.length) fetchProvenance();
  if (record.state !== "scored") poll = setInterval(async () => {
    try {
      const fresh = await get("/api/run", { run: key });
      if (now !== turn) return;
      if (fresh.state === "scored") render(); else progress.replaceChildren(stateOf(fresh));
    } catch { /* as above */ }
  }, POLL_MS);
}
function scrolling(name, table) { return el("div.scroll", { role: "region", "aria-label": name, tabindex: "0" }, table); }
function scoreTable(rows, key, protocol) {
  const adjusted = rows.some((r) => r.adjusted.length);
  return scrolling("Scores", el("table.scores", {},
    el("thead", {}, el("tr", {}, ["Metric", "Group", "Value", "95 % interval", "Answers", adjusted ? "Adjusted for judge error" : null].filter(Boolean).map((t) => el("th", { scope: "col" }, t)))),
    el("tbody", {}, rows.map((r) => {
      const facets = Object.entries(r.facets).map(([k, v]) => `${k}=${v}`);
      return el("tr", {}, el("th", { scope: "row" }, r.metric, r.better ? el("span.soft.small", {}, r.better === "higher" ? " ↑" : " ↓", el("span.away", {}, ` ${r.better} is better`)) : ""),
        el("td", {}, facets.length ? el("a", { href: link("/images", { run: key, protocol, facet: facets }) }, r.group) : r.group),
        el("td.number", {}, el("b", {}, r.value), r.unit && r.value !== "–" ? ` ${r.unit}` : ""), el("td.number.interval", {}, r.interval), el("td.number.soft", {}, r.counts),
        adjusted && el("td.number", {}, r.adjusted.map(([kind, value, interval]) => el("div", {}, `${kind}: `, el("b", {}, value), " ", el("span.interval", {}, interval)))));
    }))));
}

// ------------------------------------------------------------------------------------------------------- the gallery
const FILTERS = ["protocol", "rule", "outcome", "reason", "judge", "state", "q", "order"];
function asked(query) {
  const values = { run: query.get("run"), facet: query.getAll("facet") };
  for (const name of FILTERS) values[name] = query.get(name) || "";
  return values;
}
const source = (run, image, side) => address("/thumbnail", { run, id: image.image_id, side, v: image.version });
function picture(run, image, side, boxes, lazy) {
  const frame = el("div.frame");
  if (!image.has_file) { frame.append(el("span.absent", {}, `${image.state}: ${image.note || "no image"}`)); return frame; }
  const img = el("img", { src: source(run, image, side), alt: image.prompt ? `Image for “${image.prompt}”` : image.image_id, loading: lazy ? "lazy" : "eager", decoding: "async",
    width: image.width || 256, height: image.height || 256,
    onerror: () => frame.replaceChildren(el("span.absent", {}, "This image cannot be shown: its file is gone or damaged.")) });
  frame.append(img);
  const drawn = overlay(image, boxes, !lazy);
  if (drawn) frame.append(drawn);
  return frame;
}
function overlay(image, observed, large) {
  // The renderer's ground truth is drawn where nobody else looked.
  const judged = (observed || []).filter((o) => o.judge !== "truth" || !observed.some((p) => p.table === o.table && p.judge !== "truth"));
  const all = judged.flatMap((o) => o.boxes);
  if (!all.length || !image.width || !image.height) return null;
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", `0 0 ${image.width} ${image.height}`);
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("boxes");
  const kept = all.some((b) => b.counts) ? all.filter((b) => b.counts) : all.slice(0, 8);
  for (const b of kept) {
    const x = Math.max(0, b.x0), y = Math.max(0, b.y0), w = Math.max(1, Math.min(image.width, b.x1) - x), h = Math.max(1, Math.min(image.height, b.y1) - y);
    for (const css of ["halo", "outline"]) {
      const rect = document.createElementNS(NS, "rect");
      for (const [k, v] of Object.entries({ x, y, width: w, height: h })) rect.setAttribute(k, v);
      rect.setAttribute("class", css + (b.counts ? "" : " faint"));
      svg.append(rect);
    }
    const text = document.createElementNS(NS, "text");
    text.textContent = b.name + (!large || b.score === null || b.score === undefined ? "" : ` ${b.score.toFixed(2)}`);
    Object.assign(text.dataset, { x, y });
    svg.append(text);
  }
  svg.toggleAttribute("hidden", !drawBoxes);
  svg.dataset.size = Math.max(image.width, image.height) / (large ? 36 : 20);
  resized.observe(svg);
  return svg;
}
const SMALLEST = 11.5; // pixels of the screen that a letter of a box is high, however small the image is shown
const resized = new ResizeObserver((entries) => { for (const { target } of entries) writeLabels(target); });
function writeLabels(svg) {
  const { width, height } = svg.viewBox.baseVal, scale = Math.min(svg.clientWidth / width, svg.clientHeight / height);
  if (!scale) return; // not on the page, or hidden
  const size = Math.max(Number(svg.dataset.size), SMALLEST / scale);
  for (const text of svg.querySelectorAll("text")) {
    for (const name of ["textLength", "lengthAdjust"]) text.removeAttribute(name);
    text.setAttribute("font-size", size);
    // Above the box where there is room, and never past an edge.
    const x = Number(text.dataset.x), y = Number(text.dataset.y), wide = text.getBBox().width;
    text.setAttribute("x", Math.max(0, Math.min(x, width - wide)));
    text.setAttribute("y", y > size * 1.3 ? y - size * .3 : y + size * 1.05);
    if (wide > width) { text.setAttribute("textLength", width); text.setAttribute("lengthAdjust", "spacingAndGlyphs"); }
  }
}
function tile(run, image, href, boxes, { side = 240, prompt = true } = {}) {
  const first = image.verdicts[0];
  const shown = image.state === "ok" && !image.outcome ? byRule(image.verdicts) : [];
  return el("a.tile", { href, "data-id": image.image_id }, picture(run, image, side, boxes ? image.boxes : [], true),
    el("div.words", {}, image.state !== "ok" ? el("div.badge.unusable", {}, image.state) : image.outcome ? el("div.badge." + image.outcome, {}, WORDS[image.outcome]) : "",
      prompt ? el("div.asked", {}, image.prompt || image.image_id) : "",
      shown.length ? el("ul.rules", {}, shown.slice(0, 4).map((line) => el("li", {}, line))) : first && first.reason ? el("div.reason", {}, first.reason) : ""));
}
const spaced = (name) => name.replaceAll("_", " ");
const rounded = (value) => String(Number(value.toPrecision(4)));
function byRule(verdicts) {
  // One line for a rule: its only value with the reason, or how many of its values are one, or their mean.
  const rules = new Map();
  for (const v of verdicts) rules.set(v.rule, [...(rules.get(v.rule) || []), v]);
  return [...rules].map(([rule, all]) => {
    const values = all.map((v) => v.value).filter((v) => v !== null);
    if (!values.length) return [`${spaced(rule)}: `, el("span.unusable", {}, "no usable answer")];
    if (all.length === 1) return [`${spaced(rule)}: `, el("b", {}, rounded(values[0])), all[0].reason ? ` · ${all[0].reason}` : ""];
    if (values.every((v) => v === 0 || v === 1)) return [`${spaced(rule)}: `, el("b", {}, `${number(values.filter((v) => v === 1).length)} of ${number(values.length)}`), " yes"];
    return [`${spaced(rule)}: mean `, el("b", {}, rounded(values.reduce((sum, v) => sum + v, 0) / values.length)), ` of ${number(values.length)}`];
  });
}
async function imagesPage(query, now) {
  const values = asked(query), key = values.run, offset = Math.max(0, Number(query.get("offset")) || 0);
  const boxes = query.get("boxes") === "1";
  crumbs(el("a", { href: "#/" }, "Runs"), el("a", { href: link("/run", { run: key }) }, key), "images");
  up = () => go("/run", { run: key });
  const again = (changes, keep) => go("/images", { ...values, boxes: boxes ? "1" : "", ...(keep ? {} : { offset: "" }), ...changes });
  const search = el("input", { type: "search", id: "search", value: values.q, placeholder: "prompt, id, note or reason" });
  typed(search, (q) => { if (q !== values.q) { pendingFocus = "search"; again({ q }); } });
  const filters = el("div.filters", {}, el("label.wide", {}, "Search", search));
  const more = el("div");
  const results = el("div", {}, el("p.note", {}, "One moment …"));
  const kept = document.getElementById("gallery-page");
  const keep = kept && kept.dataset.run === key;  // the filters stay while results change
  if (!keep) { if (!put(now, `Images of ${key}`, el("div", { id: "gallery-page", "data-run": key }, el("h1", {}, "Images of ", key), filters, more, results))) return; }
  else {
    document.title = `Images of ${key} · verism`;
    kept.replaceChildren(el("h1", {}, "Images of ", key), filters, more, results);
  }
  focusAgain();
  const page = get("/api/images", { ...values, offset, size: PAGE, boxes: boxes ? "1" : "" });
  fetchFilters(key).then((f) => {
    if (now !== turn) return;
    const protocol = values.protocol || f.protocols[0] || "";
    const rules = f.rules.filter((r) => r.protocol === protocol);
    const rule = rules.find((r) => r.rule === values.rule);
    const yes = !rule || rule.right_or_wrong ? ["right", "wrong"] : rule.binary ? ["yes (1)", "no (0)"] : ["0.5 or more", "below 0.5"];
    const active = new Map(values.facet.map((p) => p.split(/=(.*)/s).slice(0, 2)));
    const facetChoices = f.facets.map((c) => choice(c.name, [["", "all"], ...c.values.map((v) => [v.value, `${v.name} (${number(v.prompts)})`])], active.get(c.facet) || "",
      (v) => { if (v) active.set(c.facet, v); else active.delete(c.facet); again({ facet: [...active].map(([k, w]) => `${k}=${w}`) }); }, { "data-facet": c.facet }));
    filters.append(...flat(
      f.right_or_wrong || values.rule ? choice("Outcome", [["", "all"], ["wrong", yes[1]], ["right", yes[0]], ["unusable", "no usable answer"], ["undecided", "not decided"]], values.outcome, (v) => again({ outcome: v }), { id: "outcome" }) : "",
      rules.length ? choice("Rule", [["", f.right_or_wrong ? "right or wrong" : "any"], ...rules.map((r) => [r.rule, r.rule.replaceAll("_", " ")])], values.rule, (v) => again({ rule: v, order: v ? values.order : "", outcome: v || f.right_or_wrong ? values.outcome : "" }), { id: "rule" }) : "",
      f.reasons.length ? choice("Reason", [["", "any"], ...f.reasons.map((r) => [r.reason, `${r.reason} (${number(r.images)})`])], values.reason, (v) => again({ reason: v }), { id: "reason" }) : "",
      facetChoices.slice(0, 2),
      el("label.check", {}, el("input", { type: "checkbox", id: "boxes", checked: boxes, onchange: (e) => again({ boxes: e.target.checked ? "1" : "" }, true) }), "Boxes")));
    const rest = [...facetChoices.slice(2),
      f.protocols.length > 1 ? choice("Protocol", f.protocols.map((p) => [p, p]), protocol, (v) => again({ protocol: v, rule: "", order: "", outcome: f.right_or_wrong ? values.outcome : "" })) : "",
      choice("State", [["", "all"], ...Object.entries(f.states).map(([s, n]) => [s, `${s} (${number(n)})`])], values.state, (v) => again({ state: v }), { id: "state" }),
      f.judges.length ? choice("Judge", [["", "any"], ...f.judges.flatMap((j) => [[j, `seen: ${j}`], ["!" + j, `not seen: ${j}`]])], values.judge, (v) => again({ judge: v })) : "",
      values.rule ? choice("Order", [["", "by id"], ["value", "lowest value first"], ["-value", "highest value first"]], values.order, (v) => again({ order: v })) : ""];
    const open = ["state", "judge", "order"].some((n) => values[n]) || values.facet.length > 0;
    more.replaceChildren(el("details.more", { open }, el("summary", {}, "More filters"), el("div.filters", {}, rest)));
  }).catch((err) => { if (now === turn) more.replaceChildren(el("p.note", {}, err.message)); });
  const record = await page;
  if (now !== turn) return;
  const last = Math.min(offset + PAGE, record.total);
  left = offset > 0 ? () => again({ offset: Math.max(0, offset - PAGE) || "" }, true) : null;
  right = last < record.total ? () => again({ offset: offset + PAGE }, true) : null;
  const pager = () => el("nav.pager", { "aria-label": "Pages" }, el("button", { type: "button", disabled: !left, onclick: () => left() }, "← Previous"),
    el("span", {}, record.total ? `${number(offset + 1)} to ${number(last)} of ${number(record.total)}` : "No image fits"), el("button", { type: "button", disabled: !right, onclick: () => right() }, "Next →"));
  said.textContent = plural(record.total, "image");
  results.replaceChildren(pager(), el("ul.gallery", { "aria-label": "Images" }, record.images.map((i) => el("li", {}, tile(key, i, link("/image", { ...values, id: i.image_id }), boxes)))),
    record.images.length > 12 ? pager() : "");
  if (query.get("at")) { const t = results.querySelector(`[data-id="${CSS.escape(query.get("at"))}"]`); if (t) t.focus(); }
}
const known = new Map();
let pendingFocus = null;
function focusAgain() {
  const field = pendingFocus && document.getElementById(pendingFocus);
  pendingFocus = null;
  if (field) { field.focus(); field.setSelectionRange(field.value.length, field.value.length); }
}
function fetchFilters(key) {
  const had = known.get(key);
  if (had && Date.now() - had.at < 15000) return had.promise;
  const promise = get("/api/filters", { run: key });
  known.set(key, { at: Date.now(), promise });
  promise.catch(() => known.delete(key));
  return promise;
}

// ---------------------------------------------------------------------------------------------------------- one image
async function imagePage(query, now) {
  const values = asked(query), key = values.run, id = query.get("id");
  const record = await get("/api/image", { ...values, id });
  const gallery = { ...values, at: id, offset: record.position === null ? "" : Math.floor(record.position / PAGE) * PAGE || "" };
  crumbs(el("a", { href: "#/" }, "Runs"), el("a", { href: link("/run", { run: key }) }, key), el("a", { href: link("/images", gallery) }, "images"), id);
  up = () => go("/images", gallery);
  const to = (other) => other === null ? null : () => go("/image", { ...values, id: other });
  left = to(record.previous); right = to(record.next);
  const frame = picture(key, record, 1440, record.observed, false);
  const toggle = el("label.check", {}, el("input", { type: "checkbox", id: "draw", checked: drawBoxes, onchange: (e) => showBoxes(e.target.checked) }), "Boxes and faces");
  const protocol = values.protocol || record.protocol;
  const verdicts = record.by_protocol[protocol] || [];
  const order = { wrong: 0, unusable: 1, value: 2, right: 3 };
  const sorted = [...verdicts].sort((a, b) => (b.decides - a.decides) || order[a.says] - order[b.says]);
  const heading = { wrong: "Why it is wrong", right: "Why it is right", unusable: "Why there is no usable answer" }[record.outcome] || "Verdicts";
  const others = Object.keys(record.by_protocol).filter((p) => p !== protocol && record.by_protocol[p].length);
  const body = [
    el("h1", {}, record.prompt ? `“${record.prompt}”` : id),
    el("nav.pager", { "aria-label": "Images" }, el("button", { type: "button", disabled: !left, onclick: () => left() }, "← Previous"),
      el("span.soft", {}, record.position === null ? "not among the images chosen" : `${number(record.position + 1)} of ${number(record.total)}`),
      el("button", { type: "button", disabled: !right, onclick: () => right() }, "Next →"), toggle),
    record.file === "changed" ? el("div.banner.error", { role: "alert" }, el("p", {}, "The file has changed since the run was made: verdicts and observations are of another image.")) : "",
    record.file === "gone" ? el("div.banner.error", { role: "alert" }, el("p", {}, "The file is gone, or is not one that the run may name.")) : "",
    el("div.one", {}, frame,
      el("div", {}, el("h2", { id: "why" }, heading), record.state !== "ok" ? el("p", {}, `The image is ${record.state}${record.note ? ": " + record.note : ""}.`) : "",
        sorted.length ? told(sorted) : el("p.note", {}, "There is no verdict about this image yet."),
        others.length ? el("details.more", {}, el("summary", {}, `Other protocols (${others.join(", ")})`), others.map((p) => [el("h3", {}, p), told(record.by_protocol[p])])) : "",
        el("h2", {}, "What was observed"), record.observed.length ? record.observed.map(observation) : el("p.note", {}, "No judge's observations of this image are kept as text or boxes."),
        el("h2", {}, "The image"), el("dl.facts", {}, facts(record)))),
    record.siblings.length > 1 ? el("div", {}, el("h2", {}, "Other images of this prompt"), el("p", {}, record.siblings.filter((s) => s !== id).map((s) => [el("a", { href: link("/image", { run: key, id: s }) }, s), " "]))) : "",
  ];
  put(now, record.prompt || id, body);
}
function facts(record) {
  const rows = [["image", record.image_id], ["state", record.state + (record.note ? `: ${record.note}` : "")], ...Object.entries(record.facets).map(([k, v]) => [k, String(v)]),
    ["size", record.width ? `${record.width} × ${record.height}` : ""], ["seed", record.seed === null ? "" : String(record.seed)], ["file", record.path || ""], ["asked for", record.spec && Object.keys(record.spec).length ? JSON.stringify(record.spec) : ""]];
  const shown = (text) => text.length > 300 ? el("details.more", {}, el("summary", {}, `${number(text.length)} characters`), text) : text;
  return rows.filter(([, v]) => v).map(([k, v]) => [el("dt", {}, spaced(k)), el("dd", {}, shown(v))]);
}
// What decides, and what has no usable answer, at length; values that decide nothing as a list, if there are many.
function told(verdicts) {
  const deciding = verdicts.filter((v) => v.decides);
  const rest = verdicts.filter((v) => !v.decides);
  return [deciding.map(verdict), rest.length > 4 ? el("ul.values", {}, rest.map((v) => el("li", {}, el("span.verdict." + v.says, {}, wordOf(v)), ` ${spaced(v.rule)}`, v.reason ? el("span", {}, ` · ${v.reason}`) : "", details(v).length ? el("span.small.soft", {}, ` · ${details(v).join(" · ")}`) : ""))) : rest.map(verdict)];
}
const wordOf = (v) => ({ right: "right", wrong: "wrong", unusable: "no usable answer", value: v.value === null ? "" : rounded(v.value) })[v.says];
function details(v) {
  if (!v.detail || typeof v.detail !== "object") return v.detail ? [String(v.detail)] : [];
  const shown = (d) => typeof d === "object" ? JSON.stringify(d) : typeof d === "number" ? rounded(d) : String(d);
  return Object.entries(v.detail).filter(([, d]) => d !== null).map(([k, d]) => `${spaced(k)}: ${shown(d)}`);
}
function verdict(v) {
  const detail = details(v);
  return el("div.why." + (v.decides || v.says === "unusable" ? v.says : "plain"), {}, el("p", {}, el("span.verdict", {}, wordOf(v)), ` · ${spaced(v.rule)}`), v.reason ? el("p", {}, v.reason) : "", detail.length ? el("p.small.soft", {}, detail.join(" · ")) : "");
}
function observation(o) {
  const title = o.table.replaceAll("_", " ");
  const lines = o.rows.map((r) => observed(o, r)).filter(Boolean);
  return el("div", {}, el("h3", {}, `${title} by ${o.judge}`), o.threshold !== null && o.boxes.length ? el("p.small.soft", {}, `Boxes above confidence ${Number(o.threshold.toFixed(3))} are drawn.`) : "",
    lines.length ? el("ul.seen", {}, lines.slice(0, 40).map((l) => el("li", {}, l))) : el("p.note", {}, "Nothing was found."),
    lines.length > 40 || o.more ? el("p.small.soft", {}, `and ${number(Math.max(0, lines.length - 40) + o.more)} more`) : "");
}
function observed(o, r) {
  const round = (x) => Number(x.toFixed(3));
  if ("question" in r) return [el("b", {}, r.question), " ", r.value || r.answer || r.note || "no answer", r.probability === null ? "" : ` (${round(r.probability)})`, r.answer && r.value && r.answer !== r.value ? el("span.soft", {}, ` “${r.answer}”`) : ""];
  if ("query" in r) return r.query < 0 ? null : `${[r.color, r.label || r.raw_label || "other object"].filter(Boolean).join(" ")} ${r.score === null ? "" : round(r.score)}${o.threshold !== null && r.score !== null && r.score <= o.threshold ? " (below the threshold)" : ""}`;
  const corner = (k) => /^[xy][01]$/.test(k);  // drawn
  return Object.entries(r).filter(([k, v]) => v !== null && v !== "" && !corner(k)).map(([k, v]) => `${k.replaceAll("_", " ")}: ${typeof v === "number" ? round(v) : v}`).join(" · ");
}
function showBoxes(on) {
  drawBoxes = on;
  for (const svg of document.querySelectorAll("svg.boxes")) svg.toggleAttribute("hidden", !on);
  const box = document.getElementById("draw");
  if (box) box.checked = on;
}

// -------------------------------------------------------------------------------------------------- two runs together
async function comparePage(query, now) {
  const values = {};
  for (const name of ["a", "b", "protocol", "rule", "show"]) values[name] = query.get(name) || "";
  const offset = Math.max(0, Number(query.get("offset")) || 0);
  crumbs(el("a", { href: "#/" }, "Runs"), "two runs");
  up = () => go("/");
  const record = await get("/api/compare", { ...values, offset, size: PAIRS });
  const again = (changes) => go("/compare", { ...values, ...changes });
  const c = record.counts, last = Math.min(offset + PAIRS, record.total);
  left = offset > 0 ? () => again({ offset: Math.max(0, offset - PAIRS) || "" }) : null;
  right = last < record.total ? () => again({ offset: offset + PAIRS }) : null;
  const better = record.right_or_wrong ? ["only the first is right", "only the second is right"] : ["the first is higher", "the second is higher"];
  const pager = () => el("nav.pager", { "aria-label": "Pages" }, el("button", { type: "button", disabled: !left, onclick: () => left() }, "← Previous"),
    el("span", {}, record.total ? `${number(offset + 1)} to ${number(last)} of ${number(record.total)}` : "No pair fits"), el("button", { type: "button", disabled: !right, onclick: () => right() }, "Next →"));
  const cautions = el("div");
  const side = (run, image, value) => image ? el("div", {}, el("p.small", {}, el("b", {}, run), value === null ? "" : record.right_or_wrong ? "" : ` · ${Number(value.toFixed(4))}`),
    tile(run, { ...image, outcome: image.outcome === "undecided" ? "" : record.right_or_wrong ? image.outcome : "", verdicts: image.verdicts.filter((v) => v.rule === record.rule) }, link("/image", { run, id: image.image_id, protocol: record.protocol }), true, { side: 480, prompt: false })) : el("p.note", {}, "no image");
  const shown = put(now, `${values.a} and ${values.b}`, el("h1", {}, values.a, el("span.soft", {}, " and "), values.b), cautions,
    el("p.lead", {}, `${plural(c.pairs, "pair")}: ${number(c.first)} where ${better[0]}, ${number(c.second)} where ${better[1]}, ${number(c.equal)} equal, ${number(c.unusable)} where one or both have no usable answer` +
      (c.only_first || c.only_second ? `; ${number(c.only_first)} images only in the first run, ${number(c.only_second)} only in the second` : "") + "."),
    el("div.filters", {}, choice("Rule", record.rules.map((r) => [r, r.replaceAll("_", " ")]), record.rule, (v) => again({ rule: v }), { id: "rule" }),
      choice("Protocol", record.protocols.map((p) => [p, p]), record.protocol, (v) => again({ protocol: v, rule: "" })),
      choice("Show", [["", "all, most different first"], ["differ", "only those that differ"], ["first", better[0]], ["second", better[1]], ["unusable", "no usable answer in one or both"]], values.show, (v) => again({ show: v }), { id: "show" }),
      el("label.check", {}, el("input", { type: "checkbox", id: "draw", checked: drawBoxes, onchange: (e) => showBoxes(e.target.checked) }), "Boxes"),
      el("button", { type: "button", onclick: () => go("/compare", { ...values, a: values.b, b: values.a, show: "" }) }, "Swap")),
    pager(), el("ul.pairs", { "aria-label": "Pairs" }, record.pairs.map((p) => el("li", {}, el("h3", {}, ((p.a || p.b || {}).prompt) || p.image_id),
      el("div.pair", {}, side(values.a, p.a, p.first), side(values.b, p.b, p.second))))), record.pairs.length > 4 ? pager() : "");
  if (!shown) return;
  try {
    const found = await get("/api/cautions", { a: values.a, b: values.b });
    if (now === turn && found.cautions.length) cautions.replaceChildren(el("div.banner", { role: "alert" }, found.cautions.map((line) => el("p", {}, line))));
  } catch (err) { if (now === turn) cautions.replaceChildren(el("p.note", {}, `Whether these runs may be compared is not known: ${err.message}`)); }
}

// ---------------------------------------------------------------------------------------------------- routes and keys
const ROUTES = { "/": listPage, "/run": runPage, "/images": imagesPage, "/image": imagePage, "/compare": comparePage };
async function render() {
  const now = ++turn;
  clearInterval(poll);
  left = right = up = null;
  const [path, query] = state();
  const route = ROUTES[path] || listPage;
  try { await route(query, now); } catch (err) {
    put(now, "Not shown", el("h1", {}, "This cannot be shown"), el("div.banner.error", { role: "alert" }, el("p", {}, err.message)), el("p", {}, el("a", { href: "#/" }, "All runs")));
  }
  if (now === turn && !document.body.contains(document.activeElement.closest ? document.activeElement : null)) main.focus();
  document.body.dataset.ready = String(now);
}
let before = "";
window.addEventListener("hashchange", () => { const [path] = state(); if (path !== before) scrollTo(0, 0); before = path; render(); });
document.getElementById("help").addEventListener("click", () => keys.showModal());
document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || keys.open) return;
  const field = e.target.closest("input[type=search], select, textarea");
  if (e.key === "Escape") { if (field) field.blur(); else if (up) up(); e.preventDefault(); return; }
  if (field) return;
  if (e.key === "?") { keys.showModal(); e.preventDefault(); }
  else if (e.key === "/") { const s = document.getElementById("search"); if (s) { s.focus(); s.select(); } e.preventDefault(); }
  else if (e.key === "b") { const box = document.getElementById("boxes"); if (box) box.click(); else showBoxes(!drawBoxes); }
  else if (e.key.startsWith("Arrow")) arrow(e);
});
function arrow(e) {
  const tiles = [...document.querySelectorAll(".gallery .tile")];
  const at = tiles.indexOf(document.activeElement);
  if (at >= 0) {
    const top = tiles[0].getBoundingClientRect().top;
    const columns = tiles.filter((t) => Math.abs(t.getBoundingClientRect().top - top) < 2).length || 1;
    const next = at + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
    if (tiles[next]) { tiles[next].focus(); e.preventDefault(); return; }
  } else if (tiles.length && e.key === "ArrowDown") { tiles[0].focus(); e.preventDefault(); return; }
  if (e.target.closest(".scroll")) return;
  const act = { ArrowLeft: left, ArrowRight: right }[e.key];
  if (act) { act(); e.preventDefault(); }
}
[before] = state();
render();
