// The page for raters. The server says what is shown (`state`); an answer counts once the server has confirmed it.
// Text from the study enters the page as text only, never as markup.
"use strict";

const UNSENT = "verism-unsent/"; // in localStorage, with the rater: the answer that was given and not confirmed
const PATIENCE = 15000; // ms until a request counts as failed
const WAIT = { first: 1000, most: 8000, poll: 5000 }; // ms between tries
const byId = (id) => document.getElementById(id);

let state = null; // what the server said last
let unsent = null; // the answer under way
let busy = false; // whether a request that changes the state is under way
let ready = false; // whether the pictures are there and may be judged
let retry = 0; // timer of the next try
let showing = 0; // number of the item on the screen, to drop pictures that come too late
let passed = false; // whether the last item was of the qualification
const pictures = new Map(); // path -> promise of an object URL

// ------------------------------------------------------------------------------------------------------ small things
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function say(text) {
  byId("said").textContent = text;
}

class Lost extends Error {} // the server does not answer, or not now

async function ask(method, path, record) {
  const request = { method, signal: AbortSignal.timeout(PATIENCE), cache: "no-store" };
  if (record !== undefined) {
    request.headers = { "Content-Type": "application/json", "X-Verism": "1" };
    request.body = JSON.stringify(record);
  }
  try {
    const reply = await fetch(path, request);
    if (reply.status >= 500 || reply.status === 429) throw new Lost();
    const json = (reply.headers.get("Content-Type") || "").startsWith("application/json");
    return { status: reply.status, body: json ? await reply.json() : {} };
  } catch {
    throw new Lost();
  }
}

// The time a rater looks: from the moment the pictures are there, without the time the page is hidden.
const clock = {
  total: 0,
  since: null,
  reset() {
    this.total = 0;
    this.since = null;
  },
  go() {
    if (this.since === null && ready && !document.hidden) this.since = performance.now();
  },
  halt() {
    if (this.since !== null) this.total += performance.now() - this.since;
    this.since = null;
  },
  seconds() {
    this.halt();
    return Math.round(this.total) / 1000;
  },
};
document.addEventListener("visibilitychange", () => (document.hidden ? clock.halt() : clock.go()));

// ---------------------------------------------------------------------------------------------------------- pictures
function picture(path) {
  if (!pictures.has(path)) {
    const loading = fetch(path, { signal: AbortSignal.timeout(60000) })
      .then((reply) => {
        if (reply.ok) return reply.blob();
        throw reply.status >= 500 ? new Lost() : new Error("no such picture");
      }, () => { throw new Lost(); })
      .then((blob) => URL.createObjectURL(blob));
    loading.catch(() => pictures.delete(path));
    pictures.set(path, loading);
  }
  return pictures.get(path);
}

function pathsOf(item) {
  return item === null ? [] : Array.from({ length: item.pictures }, (_, n) => `pictures/${item.position}/${n}`);
}

function keepOnly(paths) {
  for (const [path, loading] of pictures) {
    if (!paths.includes(path)) {
      pictures.delete(path);
      loading.then(URL.revokeObjectURL, () => {});
    }
  }
}

async function fill(image, path) {
  for (let wait = WAIT.first; ; wait = Math.min(2 * wait, WAIT.most)) {
    try {
      image.src = await picture(path);
      await image.decode();
      return true;
    } catch (error) {
      if (!(error instanceof Lost)) return false;
      say("The server does not answer; the picture comes as soon as it does.");
    }
    await new Promise((done) => setTimeout(done, wait));
    if (!image.isConnected) return false;
  }
}

// --------------------------------------------------------------------------------------------------------- the phases
function show(next) {
  const before = state;
  state = next;
  clearTimeout(retry);
  ready = false;
  clock.reset();
  showing += 1;
  byId("large").close();
  const going = state.phase === "item";
  const study = state.progress;
  document.body.dataset.kind = going ? state.item.kind : "";
  byId("progress").hidden = !study;
  if (study) {
    bar("own", study.answered, study.answered + study.open);
    bar("all", study.votes, study.wanted);
  }
  byId("rater").hidden = !state.rater;
  byId("rater-name").textContent = state.rater || "";
  byId("leave").hidden = !state.local;
  byId("commands").hidden = !["item", "done", "waiting"].includes(state.phase);
  byId("undo").disabled = !study || study.answered === 0;
  for (const id of ["skip", "zoom"]) byId(id).hidden = !going;
  const through = passed && !(going && state.item.qualifying);
  passed = going && state.item.qualifying;
  if (through && before !== null && state.qualification && state.phase !== "barred") {
    keepOnly(pathsOf(state.item));
    qualified();
    return;
  }
  ({ item: question, waiting, done, barred, link, name: welcome })[state.phase]();
  keepOnly([...pathsOf(state.item || null), ...pathsOf(state.ahead || null)]);
}

function bar(id, value, most) {
  byId(id).max = Math.max(most, 1);
  byId(id).value = value;
  byId(`${id}-text`).textContent = `${value} of ${most}`;
}

function sheet(title, ...content) {
  const heading = make("h1", { tabindex: "-1" }, title);
  byId("main").replaceChildren(make("div", { class: "sheet" }, heading, ...content));
  document.body.dataset.phase = state === null ? "start" : state.phase;
  heading.focus();
}

function welcome() {
  const input = make("input", {
    id: "name", maxlength: "80", required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "name-why",
  });
  const problem = make("p", { class: "problem", role: "alert" });
  const join = async (event) => {
    event.preventDefault();
    try {
      const { status, body } = await ask("POST", "api/join", { name: input.value });
      if (status === 200) arrived(body);
      else problem.textContent = body.error || "That name cannot be used.";
    } catch {
      problem.textContent = "The server does not answer. Is it running?";
    }
  };
  sheet(
    "Look at pictures, and say what you see",
    make("p", {}, "Each question comes with a picture. Answer with a key or a click; go by what you see, and skip what you cannot judge."),
    make("form", { onsubmit: join },
      make("label", { for: "name" }, "Your name"),
      make("div", { class: "row" }, input, make("button", { class: "main" }, "Start")),
      make("p", { id: "name-why", class: "hint" }, "It marks your answers as yours. Give the same name later to go on where you stopped.")),
    problem,
  );
  input.focus();
}

function link() {
  sheet("A link is needed", make("p", {}, state.why));
}

function barred() {
  sheet("Thank you for trying", make("p", {}, "You cannot go on with this study:"), make("p", { class: "reason" }, state.why),
    make("p", {}, "Some questions at the start had known answers. What you answered is kept; nothing more is needed of you."));
}

function waiting() {
  sheet("Nothing for you just now", make("p", {}, "Others are looking at the last pictures. If they leave some, these come here by themselves."));
  retry = setTimeout(reload, WAIT.poll);
}

function done() {
  const n = state.progress.answered;
  sheet("Done. Thank you!",
    make("p", {}, `You gave ${n} ${n === 1 ? "answer" : "answers"}; all of them are saved. You may close this page.`));
}

function qualified() {
  const { right, asked } = state.qualification;
  document.body.dataset.phase = "qualified";
  const begin = make("button", { class: "main", onclick: () => show(state) }, "Begin");
  byId("main").replaceChildren(make("div", { class: "sheet" },
    make("h1", {}, "You are qualified"),
    make("p", {}, `${right} of ${asked} answers were right. The study itself begins now.`), begin));
  byId("commands").hidden = true;
  begin.focus();
}

// --------------------------------------------------------------------------------------------------------- a question
function question() {
  const item = state.item;
  const mine = showing;
  document.body.dataset.phase = "item";
  const heading = make("h1", { id: "question", tabindex: "-1" });
  for (const [text, filled] of item.question) heading.append(filled ? make("em", {}, text) : text);
  const asked = make("div", { class: "asked" },
    item.qualifying
      ? make("p", { class: "badge" }, `Qualification, ${state.qualification.given + 1} of ${state.qualification.asked}`)
      : null,
    heading,
    item.help ? make("p", { class: "hint", id: "item-help" }, item.help) : null);
  const frames = pathsOf(item).map((path, n) => frame(path, n, item));
  const answers = item.kind === "list" ? list(item) : buttons(item);
  const seen = make("div", { class: "pictures", "data-n": item.pictures }, ...frames);
  seen.style.setProperty("--columns", item.kind === "pair" ? 2 : Math.ceil(Math.sqrt(item.pictures)));
  byId("main").replaceChildren(make("section", {
    class: `question ${item.kind}`, "aria-labelledby": "question", "data-position": item.position,
  },
  asked, seen, answers));
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
  Promise.all(frames.map((f) => fill(f.querySelector("img"), f.dataset.path))).then((loaded) => {
    if (mine !== showing) return;
    frames.forEach((f, n) => {
      if (loaded[n]) f.classList.add("there");
      else f.replaceChildren(make("span", { class: "gone" }, "This picture cannot be shown. Skip it."));
    });
    if (unsent === null && loaded.every(Boolean)) open_(item);
    for (const path of pathsOf(state.ahead)) picture(path).catch(() => {});
  });
}

function frame(path, n, item) {
  const name = item.kind === "pair" ? ["Left picture", "Right picture"][n]
    : item.pictures === 1 ? "The picture to judge" : `Picture ${n + 1} of ${item.pictures}`;
  const image = make("img", { alt: name, draggable: "false" });
  return make("button", {
    type: "button", class: "frame", "data-path": path, tabindex: item.pictures > 2 ? "-1" : "0",
    "aria-label": `${name}: enlarge`, onclick: () => enlarge(n),
  }, image);
}

function label(option) {
  return [
    option.swatch ? swatch(option.swatch) : null,
    option.example ? make("img", { class: "example", src: option.example, alt: "", loading: "eager" }) : null,
    make("span", { class: "label" }, option.label, option.note ? make("small", {}, option.note) : null),
  ];
}

function swatch(colour) {
  const patch = make("span", { class: "swatch", "aria-hidden": "true" });
  patch.style.backgroundColor = colour;
  return patch;
}

function buttons(item) {
  const answers = item.options.map((option) => make("button", {
    type: "button",
    class: `answer${option.apart ? " apart" : ""}${option.swatch ? " tone" : ""}`,
    disabled: true,
    "data-value": option.value,
    "data-key": option.key,
    "aria-keyshortcuts": option.key || null,
    "aria-current": option.value === item.previous ? "true" : null,
    onclick: () => answer(option.value),
  }, ...label(option), option.key && (!/^\d/.test(option.label) || option.label[0] !== option.key) ? make("kbd", { "aria-hidden": "true" }, option.key) : null));
  return make("div", {
    class: "answers", role: "group", "aria-labelledby": "question",
    "aria-describedby": item.help ? "item-help" : null,
    "data-n": item.options.length,
  }, ...answers);
}

// Folds case and accents away, so that "cafe" finds "Café".
const folded = (text) => text.toLocaleLowerCase("en").normalize("NFD").replace(/\p{M}/gu, "");

function rank(text, typed) {
  const at = text.indexOf(typed);
  if (at < 0) return 3;
  if (at === 0) return 0;
  return /[\s,/-]/.test(text[at - 1]) ? 1 : 2;
}

function list(item) {
  const options = item.options.map((option, n) => ({ option, n, text: folded(option.label) }));
  const box = make("ul", { id: "choices", role: "listbox", "aria-labelledby": "question" });
  const input = make("input", {
    id: "typed", role: "combobox", "aria-expanded": "true", "aria-controls": "choices", "aria-autocomplete": "list",
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", disabled: true, placeholder: "Type, or choose below",
  });
  const count = make("p", { class: "hint", role: "status" });
  let found = [];
  let active = -1;
  const activate = (place) => {
    active = place;
    [...box.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === place)));
    if (place >= 0) {
      input.setAttribute("aria-activedescendant", box.children[place].id);
      box.children[place].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const search = () => {
    const typed = folded(input.value.trim());
    found = options.filter((o) => o.option.apart || rank(o.text, typed) < 3);
    if (typed) {
      found.sort((a, b) => rank(a.text, typed) - rank(b.text, typed) || a.n - b.n);
    }
    box.replaceChildren(...found.map(({ option, n }) => make("li", {
      id: `choice-${n}`, role: "option", class: option.apart ? "apart" : "", "data-value": option.value,
      "aria-current": option.value === item.previous ? "true" : null,
      onclick: () => ready && answer(option.value),
    }, ...label(option))));
    const fitting = typed ? found.filter((o) => rank(o.text, typed) < 3).length : 0;
    activate(fitting ? 0 : -1);
    count.textContent = typed ? (fitting ? `${fitting} found; Enter takes the marked one` : "Nothing like that in the list") : "";
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length) {
      event.preventDefault();
      activate(active < 0 ? (step > 0 ? 0 : found.length - 1) : (active + step + found.length) % found.length);
    } else if (event.key === "Enter" && !event.repeat && !event.isComposing) {
      event.preventDefault();
      if (active >= 0) answer(found[active].option.value);
    } else if (event.key === "Escape") {
      if (input.value) {
        input.value = "";
        search();
      } else byId("question").focus();
    }
    event.stopPropagation();
  });
  search();
  if (item.previous !== null) activate(found.findIndex((o) => o.option.value === item.previous));
  return make("div", { class: "answers typed" }, make("label", { for: "typed" }, "Your answer"), input, box, count);
}

// Lets a rater answer; only once every picture is there, so that a key pressed too long answers nothing.
function open_(item) {
  ready = true;
  const main = byId("main");
  main.querySelectorAll("button.answer, #typed").forEach((e) => (e.disabled = false));
  const typed = byId("typed");
  if (typed) typed.focus({ preventScroll: true });
  else if (item.previous !== null) main.querySelector('[aria-current="true"]')?.focus();
  main.querySelector("section").classList.add("ready");
  clock.go();
}

// ---------------------------------------------------------------------------------------------- answering, taking back
function answer(value) {
  if (!state || state.phase !== "item" || unsent !== null || busy || (value !== null && !ready)) return;
  const { position, ticket } = state.item;
  const seconds = ready ? clock.seconds() : null;
  ready = false;
  byId("main").querySelector("section").classList.remove("ready");
  unsent = { rater: state.rater, position, ticket, answer: value, seconds };
  try {
    localStorage.setItem(UNSENT + unsent.rater, JSON.stringify(unsent));
  } catch { /* private windows may forbid it: the answer stays in this page */ }
  for (const row of byId("main").querySelectorAll(".answer, [role=option]")) {
    if (row.dataset.value === value) row.classList.add("given");
    if ("disabled" in row) row.disabled = true;
  }
  if (byId("typed")) byId("typed").disabled = true;
  send(WAIT.first);
}

function forget() {
  try {
    localStorage.removeItem(UNSENT + unsent.rater);
  } catch { /* as above */ }
  unsent = null;
  byId("unsaved").hidden = true;
}

async function send(wait) {
  clearTimeout(retry);
  if (unsent === null || busy) return;
  busy = true;
  const slow = setTimeout(() => say("Saving …"), 500);
  let reply = null;
  try {
    const { rater: _, ...record } = unsent;
    reply = await ask("POST", "api/vote", record);
  } catch { /* reply stays null */ }
  clearTimeout(slow);
  busy = false;
  if (reply === null) {
    notSaved(wait);
    retry = setTimeout(() => send(Math.min(2 * wait, WAIT.most)), wait);
  } else if (reply.status === 200) {
    const skipped = unsent.answer === null;
    forget();
    say(skipped ? "Skipped" : "Saved");
    show(reply.body);
  } else if (reply.status === 401) {
    await reload(); // the answer stays until its rater is back
  } else {
    forget();
    say(`Not saved: ${reply.body.error || "the server refused it"}`);
    await reload();
  }
}

function notSaved(wait) {
  say("");
  const banner = byId("unsaved");
  if (banner.hidden) {
    banner.replaceChildren(
      make("span", {}, make("strong", {}, "Not saved yet. "),
        "The server does not answer. Your answer is kept here and is sent as soon as it does; please leave this page open."),
      make("button", { type: "button", class: "main", onclick: () => send(wait) }, "Try now"));
    banner.hidden = false;
  }
}

addEventListener("beforeunload", (event) => {
  if (unsent !== null) event.preventDefault();
});

async function undo() {
  if (unsent !== null || busy || !state || !state.progress) return;
  busy = true;
  try {
    const { status, body } = await ask("POST", "api/undo", { position: state.item ? state.item.position : null });
    if (status === 200) {
      show(body);
      say(body.undone ? "Your last answer is taken back; answer again." : "There is nothing to take back.");
    } else say(body.error || "That was not possible.");
    if (status === 401) await reload();
  } catch {
    say("The server does not answer; nothing was taken back yet. Try again.");
  } finally {
    busy = false;
  }
}

async function leave() {
  if (unsent !== null) return;
  try {
    await ask("POST", "api/leave", {});
    keepOnly([]);
    state = null;
    passed = false;
    await reload();
  } catch {
    say("The server does not answer.");
  }
}

// ------------------------------------------------------------------------------------------------------- large, keys
let large = 0;
function enlarge(n) {
  const images = byId("main").querySelectorAll(".frame.there img");
  if (images.length === 0) return;
  large = (n + images.length) % images.length;
  byId("large-picture").src = images[large].src;
  byId("large-picture").alt = images[large].alt;
  if (!byId("large").open) byId("large").showModal();
}
byId("large").addEventListener("click", () => byId("large").close());
byId("large").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step !== undefined) enlarge(large + step);
  else if (["z", "Enter", " "].includes(event.key)) byId("large").close();
  else return;
  event.preventDefault();
  event.stopPropagation();
});

byId("undo").addEventListener("click", undo);
byId("skip").addEventListener("click", () => answer(null));
byId("zoom").addEventListener("click", () => enlarge(0));
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("leave").addEventListener("click", leave);

function move(key) {
  const answers = [...byId("main").querySelectorAll("button.answer:not(:disabled)")];
  if (answers.length === 0) return false;
  const at = answers.indexOf(document.activeElement);
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
  if (state.item.kind === "pair") answers[{ ArrowLeft: 0, ArrowRight: 1, ArrowDown: 2, ArrowUp: 0 }[key]].focus();
  else if (at < 0) answers[step > 0 ? 0 : answers.length - 1].focus();
  else answers[(at + step + answers.length) % answers.length].focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]") || event.target.tagName === "INPUT") return;
  const { key } = event;
  const going = state !== null && state.phase === "item" && document.body.dataset.phase === "item";
  const item = going ? byId("main").querySelector(`button.answer[data-key="${CSS.escape(key.toLowerCase())}"]`) : null;
  if (key === "?") byId("keys").showModal();
  else if (key.startsWith("Arrow")) {
    if (!going || !move(key)) return;
  } else if (event.repeat) return;
  else if ((key === "u" || key === "Backspace") && !byId("commands").hidden) undo();
  else if (key === "s" && going) answer(null);
  else if (key === "z" && going) enlarge(0);
  else if (item !== null && !item.disabled) answer(item.dataset.value);
  else return;
  event.preventDefault();
});

// ------------------------------------------------------------------------------------------------------------- start
function arrived(next) {
  if (unsent !== null && unsent.rater !== next.rater) {
    unsent = null; // it stays in localStorage until its rater is back
    byId("unsaved").hidden = true;
  }
  show(next);
  try {
    unsent ??= JSON.parse(localStorage.getItem(UNSENT + next.rater));
  } catch { /* nothing kept */ }
  if (unsent !== null) send(WAIT.first);
}

async function reload() {
  clearTimeout(retry);
  try {
    arrived((await ask("GET", "api/state")).body);
  } catch {
    say("");
    if (state === null || state.phase !== "waiting") sheet("The server does not answer", make("p", {}, "This page tries again by itself."));
    retry = setTimeout(reload, 2000);
  }
}
reload();
