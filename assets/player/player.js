// The player: it shows drawings that Python made, and knows nothing about caches. No library, no request to anywhere.
// A reel has `drawings` and `panels` (tree, pool, rows or picture); a panel has for each step what is different in it.
const BAR = `
  <button data-testid="first" aria-label="first step">|◀</button>
  <button data-testid="prev" aria-label="step back">◀</button>
  <button data-testid="play" aria-label="play">▶ play</button>
  <button data-testid="next" aria-label="step forward">▶</button>
  <input data-testid="slider" type="range" min="0" aria-label="step">
  <output data-testid="count"></output>
  <label>speed <select data-testid="speed"><option value="2400">½×</option><option value="1200">1×</option>
    <option value="600">2×</option><option value="240">5×</option></select></label>
  <button data-testid="large">large</button>`;
const TITLE = "Click a node or a slot for its story";
const HINT = "Who made it, who locked it, why it went: each line leads to its step. Without a mouse: Tab to a node or the pool, then Enter.";
const GLIDE = 450, INK = "#70767d";   // of lines, as BOTH of palette.py

function make(tag, name, text, act) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  if (act) made.onclick = act;
  return made;
}

function set(element, attributes) {
  for (const name in attributes) element.setAttribute(name, attributes[name]);
}

// `slots 5-10` does not break after its hyphen.
const unbroken = (words) => words.replace(/(\d)-(?=\d)/g, "$1\u2011");

// Lines with the room of the longest texts they will ever have, so that nothing below jumps.
function steady(texts) {
  const box = make("div", "minikv-steady"), room = make("div", "minikv-room"), shown = make("div");
  set(room, { "aria-hidden": true });
  const lines = {};
  for (const [name, all] of Object.entries(texts)) {
    const longest = all.reduce((a, b) => (b.length > a.length ? b : a), "");
    room.append(make("div", `minikv-as-${name}`, longest.replace(/\S/g, "x")));   // what it says is a secret yet
    lines[name] = make("div", `minikv-${name} minikv-as-${name}`);
    shown.append(lines[name]);
  }
  box.append(room, shown);
  return { box, ...lines };
}

// The parts of a panel at a step, `shape` in their order: each with its drawing and place. A step applies to the one
// before it, so going back begins at the first one.
function partsAt(panel, step) {
  if (!panel.parts || panel.at > step) Object.assign(panel, { at: -1, shape: [], parts: new Map() });
  while (panel.at < step) {
    const [shape, put] = panel.steps[++panel.at] || [0, []];
    panel.shape = shape || panel.shape;
    for (let i = 0; i < put.length; i += 4) panel.parts.set(put[i], put.slice(i + 1, i + 4));
  }
  return panel;
}

// The line from the part above, as a piece of a path: as `line_to` of svg.py.
function lineTo([, x, y], [drawing, fromX, fromY], reaches, sideways) {
  if (sideways) {
    const start = fromX + reaches[drawing], middle = Math.floor((start + x) / 2);
    return `M${start} ${fromY}C${middle} ${fromY} ${middle} ${y} ${x} ${y}`;
  }
  const start = fromY + reaches[drawing], middle = Math.floor((start + y) / 2);
  return `M${fromX} ${start}C${fromX} ${middle} ${x} ${middle} ${x} ${y}`;
}

// The SVG of a panel at a step: the lines, and on them the parts; as `painted` of svg.py.
export function pictureAt(reel, panel, step) {
  const { shape, parts } = partsAt(panel, step);
  let lines = "", drawn = "";
  for (let i = 0; i < shape.length; i += 2) {
    const part = parts.get(shape[i]), [drawing, x, y] = part;
    if (shape[i + 1] !== null) lines += lineTo(part, parts.get(shape[i + 1]), reel.reaches, panel.sideways);
    drawn += `<g transform="translate(${x} ${y})"><g data-part="${shape[i]}">${reel.drawings[drawing]}</g></g>`;
  }
  if (lines) lines = `<path class="lines" fill="none" stroke="${INK}" d="${lines}"/>`;
  return panel.head + lines + drawn + panel.tail;
}

// What a picture says: its words, and for what has none what it stands for.
function saidIn(svg) {
  return [...svg.querySelectorAll("text, [data-say]")].map((one) => one.dataset.say || one.textContent).join(" ");
}

// Where every node stands on the screen, and how to paint it there once it is gone.
function placesOf(panel) {
  const svg = panel.querySelector("svg"), found = new Map();
  if (!svg) return found;
  const home = svg.getScreenCTM();
  for (const node of panel.querySelectorAll("g.node")) {
    const box = node.getBoundingClientRect();
    const matrix = home && home.inverse().multiply(node.getScreenCTM());
    found.set(node.dataset.part, { x: box.x + box.width / 2, y: box.y + box.height / 2, node, matrix });
  }
  return found;
}

// A ring around what is chosen; its own border says what happened to it.
function ring(inside, x, y, width, height) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  set(made, { x, y, width, height, rx: 8, class: "minikv-ring" });
  inside.append(made);
}

function ringNode(node) {
  const box = node.getBBox();
  ring(node, box.x - 6, box.y - 6, box.width + 12, box.height + 12);
}

function ringCell(pool, slot, pageSize) {
  const i = Math.floor(slot / pageSize), side = pool.cell - 2;
  const x = (i % pool.columns) * pool.cell + 4, y = Math.floor(i / pool.columns) * pool.cell + pool.top;
  if (i < pool.count) ring(pool.box.querySelector("svg"), x, y, side, side);
}

// What is said again is left alone, so that it is not read out again; the focus stays on its link, or in the player.
function retell(facts, told) {
  if (facts.innerHTML === told.innerHTML) return;
  const links = [...facts.querySelectorAll("button")], had = links.indexOf(document.activeElement);
  facts.replaceChildren(...told.childNodes);
  if (had < 0) return;
  const now = facts.querySelectorAll("button");
  (now[Math.min(had, now.length - 1)] || facts.closest(".minikv-player")).focus({ preventScroll: true });
}

// Each node can be reached with Tab, and says what it is.
function prepare(box) {
  for (const node of box.querySelectorAll("[data-part]")) {
    const words = [...node.querySelectorAll("text")].map((text) => text.textContent);
    node.classList.add("node");
    set(node, { tabindex: 0, role: "button", "aria-label": `node ${words.join(", ")}` });
  }
}

// A tree larger than its panel is scrolled to what the step is about.
function look(box, about) {
  const nodes = about.map((key) => box.querySelector(`g.node[data-part="${key}"]`)).filter(Boolean);
  if (!nodes.length) return;
  const home = box.getBoundingClientRect(), rooms = nodes.map((node) => node.getBoundingClientRect());
  const middle = (low, high) => (Math.min(...rooms.map(low)) + Math.max(...rooms.map(high))) / 2;
  if (!rooms.some((r) => r.left < home.left || r.right > home.right || r.top < home.top || r.bottom > home.bottom)) return;
  box.scrollLeft += middle((r) => r.left, (r) => r.right) - home.left - box.clientWidth / 2;
  box.scrollTop += middle((r) => r.top, (r) => r.bottom) - home.top - box.clientHeight / 2;
}

function glide(panel, before, born, time) {
  const svg = panel.querySelector("svg"), room = svg && svg.getBoundingClientRect();
  if (!room || !room.width || !before.size) return;
  const scale = room.width / svg.viewBox.baseVal.width, ease = { duration: time, easing: "ease-in-out" };
  const after = placesOf(panel);
  for (const [name, { x, y, node }] of after) {
    const from = before.get(name) || before.get(String(born[name]));
    if (!from) {
      node.animate([{ opacity: 0 }, { opacity: 0, offset: 0.4 }, { opacity: 1 }], ease);
    } else if (Math.abs(from.x - x) + Math.abs(from.y - y) > 0.5) {
      const way = `translate(${(from.x - x) / scale}px, ${(from.y - y) / scale}px)`;
      node.animate([{ transform: way }, { transform: "none" }], ease);
    }
  }
  const lines = panel.querySelector(".lines");
  if (lines) lines.animate([{ opacity: 0 }, { opacity: 0, offset: 0.5 }, { opacity: 1 }], ease);
  for (const [name, { node, matrix: m }] of before) {
    if (after.has(name) || !m) continue;
    const ghost = document.createElementNS("http://www.w3.org/2000/svg", "g");
    set(ghost, { transform: `matrix(${m.a} ${m.b} ${m.c} ${m.d} ${m.e} ${m.f})`, "aria-hidden": true });
    node.removeAttribute("tabindex");
    node.classList.remove("node");
    ghost.append(node);
    svg.append(ghost);
    ghost.animate([{ opacity: 1 }, { opacity: 0, offset: 0.7 }, { opacity: 0 }], ease).onfinish = () => ghost.remove();
  }
}

// The player of one reel; what was chosen, places, speed and the open fold are of the one before.
function build(model, el, { chosen = null, places, speed = 1200, open }, again) {
  el.style.minHeight = `${el.offsetHeight}px`;   // until it is filled, or the page would jump
  const reel = model.get("reel"), { captions, film } = reel, last = captions.length - 1;
  const slow = matchMedia("(prefers-reduced-motion: reduce)");
  el.classList.add("minikv-player");
  set(el, { tabindex: 0, role: "group", "aria-label": "step player: arrow keys step, space plays" });
  const bar = make("div", "minikv-bar"), scene = make("div", "minikv-scene");
  bar.innerHTML = BAR;
  const part = (name) => bar.querySelector(`[data-testid=${name}]`);
  part("slider").max = last;
  part("speed").value = speed;
  const { box: words, caption, notes } = steady({ caption: captions, ...(film && { notes: film.notes }) });
  el.replaceChildren(bar, words);
  let at = -1, timer = null, fold;

  // -- the scene: what stands on the left, and a column for the rest on the right
  const left = make("div", "minikv-left"), right = make("div", "minikv-right");
  scene.append(left, right);
  const panels = reel.panels.map((about) => {
    const box = make("div", `minikv-panel minikv-${about.kind}`);
    const leads = reel.panels.length === 1 || about.kind === "tree";
    if (leads && about.kind === "tree") left.style.flexBasis = `${Math.min(about.width, 420)}px`;
    if (film && about.kind === "pool") set(box, { tabindex: 0, role: "group" });
    (leads ? left : right).append(box);
    return { ...about, box, shown: null };
  });
  const [tree, pool] = ["tree", "pool"].map((kind) => panels.find((panel) => panel.kind === kind));
  el.append(scene);

  const wide = ({ width }, by = 1) => `${width * by * (el.matches(".minikv-large") ? 1.5 : 1)}px`;
  const fill = (panel, step) => {
    const picture = pictureAt(reel, panel, step);
    if (picture === panel.shown) return;
    const before = panel !== tree || slow.matches ? new Map() : places || placesOf(panel.box);
    if (panel === tree) places = null;
    const focused = document.activeElement, inside = focused !== panel.box && panel.box.contains(focused);
    panel.shown = panel.box.innerHTML = picture;
    const svg = panel.box.querySelector("svg");
    if (panel.box.tabIndex === 0) {
      set(panel.box, { "aria-label": `${svg.querySelector("text").textContent}; Enter: the story of a slot` });
    }
    set(svg, panel === tree ? { role: "group", "aria-label": "tree" } : { role: "img", "aria-label": saidIn(svg) });
    svg.style.width = wide(panel);
    if (panel === tree) {
      svg.style.width = `clamp(${wide(tree, 0.93)}, 100%, ${wide(tree, Math.min(1.6, Math.max(1, 460 / tree.height)))})`;
      prepare(panel.box);
      look(panel.box, film.focus[step]);
      glide(panel.box, before, film.born[step], timer ? Math.min(GLIDE, part("speed").value * 0.6) : GLIDE);
    }
    if (!inside) return;
    (panel.box.querySelector(`g.node[data-part="${focused.dataset.part}"]`) || el).focus({ preventScroll: true });
  };
  // Laid out again when it gets room, for it may be hidden at first.
  const settle = () => {
    if (tree) look(tree.box, film.focus[at]);
    if (film) show(at);
  };

  // -- what only a film has: changes, sizes, the log, and the story of what was clicked
  let tell = () => {}, mark = () => {}, show = () => {}, measure = () => {};
  if (film) {
    const sizes = sizesOf(film.sizes), below = make("div", "minikv-below");
    const log = make("div", "minikv-log"), facts = make("div", "minikv-facts");
    set(log, { role: "group", "aria-label": "the steps so far" });
    fold = insideOf(film, open);
    if (fold) words.after(fold.box);
    scene.append(sizes.box);
    scene.insertAdjacentHTML("beforeend", film.legend);
    below.append(log, facts);
    el.append(below);
    measure = (now) => sizes.show(film.sizes.values[now]);
    const lines = [];
    mark = (was, now) => {
      while (lines.length <= now) {   // up to the step that was reached
        const i = lines.length, line = make("button", "minikv-line", captions[i], () => jump(i));
        set(line, { title: captions[i], tabindex: -1 });
        log.append(line);
        lines.push(line);
      }
      notes.textContent = unbroken(film.notes[now]);
      if (fold) fold.show(now);
      measure(now);
      if (lines[was]) { lines[was].tabIndex = -1; lines[was].removeAttribute("aria-current"); }
      set(lines[now], { tabindex: 0, "aria-current": "step" });
      show(now);
      if (log.contains(document.activeElement)) lines[now].focus({ preventScroll: true });
    };
    show = (now) => {
      const top = lines[now].offsetTop - log.offsetTop, high = lines[now].offsetHeight;
      log.scrollTop = Math.max(0, top + 2 * high - log.clientHeight);
    };
    tell = (aloud) => {
      set(facts, { "aria-live": aloud ? "polite" : "off" });   // of a step, the caption is read out
      for (const old of scene.querySelectorAll(".minikv-ring")) old.remove();
      const { node, slots } = chosenAt(film, chosen, at);
      scene.querySelectorAll(`g.node[data-part="${node}"]`).forEach(ringNode);
      if (pool) for (const slot of new Set(slots)) ringCell(pool, slot, film.pageSize);
      const told = make("div");
      told.append(...storyOf(film, chosen, at, jump, (slot) => choose({ slot })));
      retell(facts, told);
    };
  }
  const choose = (what) => {
    chosen = what;
    tell(true);
    if (what && what.node !== undefined) report("clicked", whole(what.node));
  };

  // What Python is told; when nobody listens, the player goes on without.
  const report = (name, value) => {
    try { model.set(name, value); model.save_changes(); } catch { /* the kernel is gone */ }
  };

  // -- before the first step: a frame that answers nothing, faintly; "play" is in the bar above
  const poster = film ? model.get("poster") ?? film.poster : 0;
  const fillAll = (step) => {
    for (const panel of panels) if (panel !== tree) panel.box.style.width = wide(panel);
    for (const panel of panels) {
      if (scene.inert) panel.shown = panel.box.innerHTML = "";
      fill(panel, step);
    }
  };

  // -- going from step to step
  const draw = (i) => {
    if (i === at && !scene.inert) return;
    const was = at;
    at = i;
    fillAll(i);
    scene.inert = false;
    set(caption, { "aria-live": timer ? "off" : "polite" });
    caption.textContent = unbroken(captions[i]);
    part("slider").value = i;
    set(part("slider"), { "aria-valuetext": captions[i] });
    part("count").textContent = reel.first ? `${i + 1} of ${last + 1}` : `step ${i} of ${last}`;
    el.dataset.step = i;
    mark(was, i);
    tell(false);
  };
  part("large").onclick = () => { stop(); el.classList.toggle("minikv-large"); again(); };
  set(part("large"), { "aria-pressed": el.matches(".minikv-large") });
  const within = (i) => Math.max(0, Math.min(last, i));
  const go = (i) => { draw(within(i)); if (!timer) report("index", at); };
  const say = (sign, name) => {
    part("play").textContent = `${sign} ${name}`;
    set(part("play"), { "aria-label": name });
  };
  const stop = () => {
    if (timer) report("index", at);   // and none for each step
    clearInterval(timer);
    timer = null;
    say("▶", "play");
  };
  const jump = (i) => { stop(); go(i); };
  const start = () => {
    if (at === last || scene.inert) go(0);
    timer = setInterval(() => (at >= last ? stop() : go(at + 1)), +part("speed").value);
    say("▮▮", "pause");
  };
  const acts = {
    first: () => jump(0), prev: () => jump(at - 1), next: () => jump(at + 1), play: () => (timer ? stop() : start()),
  };
  for (const name in acts) part(name).onclick = acts[name];
  part("slider").oninput = (e) => jump(+e.target.value);
  part("speed").onchange = () => { if (timer) { stop(); start(); } };
  const keys = { ArrowLeft: acts.prev, ArrowRight: acts.next, Home: acts.first, " ": acts.play,
    End: () => jump(last), Escape: () => choose(null) };
  el.onkeydown = (e) => {
    e.stopPropagation();   // the notebook would take the arrow keys for itself
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const node = e.target.closest("g.node"), pool = e.target.matches(".minikv-pool");
    const inControl = e.target.matches(e.key === " " ? "button, select, input, summary" : "select, input");
    const chooses = film && (e.key === "Enter" || e.key === " ");
    if (chooses && node) choose({ node: +node.dataset.part });
    else if (chooses && pool) choose({ slot: +Object.keys(film.slots)[0] });
    else if (!keys[e.key] || inControl) return;
    else keys[e.key]();
    e.preventDefault();
  };
  scene.onclick = (e) => {
    if (!film) return;
    const node = e.target.closest("g.node"), cells = e.target.closest(".minikv-pool svg");
    if (node) choose({ node: +node.dataset.part });
    else if (cells) {
      const slot = slotAt(cells, e, pool);
      if (slot !== null) choose({ slot: slot * film.pageSize });
    }
  };
  const follow = () => draw(within(model.get("index")));
  follow();
  if (poster && !at) {
    scene.inert = true;
    fillAll(poster);
    measure(poster);
    caption.textContent = unbroken(captions[poster]);
  }
  el.style.minHeight = "";
  let had = el.clientWidth;
  const observer = new ResizeObserver(() => {
    if (el.clientWidth && !had) settle();
    had = el.clientWidth;
  });
  observer.observe(el);
  const end = () => {
    clearInterval(timer);
    observer.disconnect();
    return { chosen, places: tree && placesOf(tree.box), speed: part("speed").value, open: fold?.box.open ?? open };
  };
  return { reel, follow, stop, end };
}

function render({ model, el }) {
  let player;
  const again = () => {
    const had = document.activeElement, inside = el.contains(had);
    player = build(model, el, player ? player.end() : {}, again);
    if (inside) (el.querySelector(`[data-testid=${had.dataset.testid}]`) || el).focus({ preventScroll: true });
  };
  const follow = () => (player.reel === model.get("reel") ? player.follow() : again());
  again();
  model.on("change:reel change:index", follow);
  return () => { model.off("change:reel change:index", follow); player.stop(); player.end(); };
}

function slotAt(svg, click, about) {
  const point = new DOMPoint(click.clientX, click.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const x = Math.floor((point.x - 4) / about.cell), y = Math.floor((point.y - about.top) / about.cell);
  const slot = y * about.columns + x;
  return x >= 0 && x < about.columns && y >= 0 && slot < about.count ? slot : null;
}

// What an operation called itself, in a fold; nothing where no operation called any.
function insideOf(film, open = false) {
  if (!film.inner.some((calls) => calls.length)) return null;
  const box = make("details", "minikv-inside"), summary = make("summary"), list = make("ol");
  list.tabIndex = 0;   // a long one scrolls
  box.open = open;
  box.append(summary, list);
  const show = (step) => {
    const calls = film.inner[step];
    summary.textContent = calls.length ? `calls inside: ${calls.length}` : "no calls inside";
    list.replaceChildren(...calls.map((words) => make("li", "", unbroken(film.words[words]))));
  };
  return { box, show };
}

// The sizes as one bar and as numbers; the names are the same in every step.
function sizesOf({ names, states }) {
  const box = make("div", "minikv-sizes"), strip = make("div", "minikv-strip"), words = make("div", "minikv-words");
  set(strip, { "aria-hidden": true });
  const parts = names.map((name, i) => {
    const kind = states[i].replace(" ", "-"), piece = make("span", `minikv-piece minikv-is-${kind}`);
    const word = make("span", "minikv-word"), number = make("b");
    word.append(make("i", `minikv-swatch minikv-is-${kind}`), `${states[i]}${name === "free" ? " slots" : ""}: `, number);
    if (name !== states[i]) word.append(` (${name})`);
    strip.append(piece);
    words.append(word);
    return { piece, number };
  });
  if (parts.length) box.append(strip, words);
  const show = (sizes) => {
    const total = sizes.reduce((sum, value) => sum + value, 0) || 1;
    sizes.forEach((value, i) => {
      parts[i].number.textContent = value;
      parts[i].piece.style.width = `${(100 * value) / total}%`;
      parts[i].piece.classList.toggle("minikv-none", !value);
    });
  };
  return { box, show };
}

// The end of a node that was cut off has an id of its own, below 0.
const whole = (key) => (key < 0 ? -key - 1 : key);

// What a node was at a step, or nothing; each step keeps the facts that changed.
function factsAt(film, key, at) {
  let now = null;
  for (const [step, changed] of film.nodes[key]?.was || []) {
    if (step > at) break;
    now = changed && { ...now, ...changed };
  }
  return now;
}

// Which node and which slots to ring: a node and what it holds, or a slot and who holds it.
function chosenAt(film, chosen, at) {
  if (!chosen) return { slots: [] };
  if (chosen.slot === undefined) return { node: chosen.node, slots: factsAt(film, chosen.node, at)?.held || [] };
  const holds = (key) => factsAt(film, key, at)?.held.includes(chosen.slot);
  return { node: Object.keys(film.nodes).find(holds), slots: [chosen.slot] };
}

// What the panel says about the chosen node or slot, as it was at this step.
function storyOf(film, chosen, at, jump, pick) {
  if (!chosen) return [make("p", "minikv-story", TITLE), make("p", "minikv-hint", HINT)];
  const said = [];
  let events;
  if (chosen.slot !== undefined) {
    const page = film.pageSize > 1 ? ` · page ${Math.floor(chosen.slot / film.pageSize)}` : "";
    const beside = make("p", "minikv-beside", "beside it: ");
    for (const slot of [chosen.slot + 1, chosen.slot - 1].filter((slot) => film.slots[slot])) {
      beside.append(make("button", "minikv-link", `slot ${slot}`, () => pick(slot)), " ");
    }
    said.push(make("p", "minikv-story", `slot ${chosen.slot}${page}`), beside);
    events = film.slots[chosen.slot] || [];
  } else {
    const key = whole(chosen.node), now = factsAt(film, key, at);
    said.push(make("p", "minikv-story", `node ${key}` + (now ? `  ${now.label}` : "")));
    said.push(now ? factsOf(now, at, pick) : make("p", "", "not in the tree at this step"));
    events = film.nodes[key]?.events || [];
  }
  const list = make("ol", "minikv-events");
  for (const [step, words] of events.filter(([step]) => step <= at)) {
    const item = make("li");
    item.append(make("button", "minikv-link", film.words[words], () => jump(step)));
    list.append(item);
  }
  return [...said, list];
}

function factsOf(now, at, pick) {
  const table = make("dl"), ago = at - now.used;
  const used = ago ? `last used at step ${now.used}, ${ago} step${ago > 1 ? "s" : ""} ago` : "used by this step";
  const rows = [[`${now.count} token${now.count === 1 ? "" : "s"}`, now.tokens], ["slots", now.slots], ["locks", `${now.locks || "none"} · ${used}`]];
  for (const [name, value] of rows) {
    const cell = make("dd", "", value);
    if (name === "slots" && Number.isInteger(now.held[0])) {
      cell.append(" · ", make("button", "minikv-link", `why slot ${now.held[0]}?`, () => pick(now.held[0])));
    }
    table.append(make("dt", "", name), cell);
  }
  return table;
}

export default { render };
