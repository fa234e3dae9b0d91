"use strict";
// The timeline of a report: what one does with it. How its bars are found is in bars.js, how they are painted in
// picture.js.
(async () => {
  const byId = id => document.getElementById(id);
  const place = byId("timeline"), gutter = byId("gutter"), canvas = byId("bars"), axis = byId("axis");
  const tip = byId("tip"), said = byId("said"), details = byId("details"), sought = byId("sought"), found = byId("found");
  const about = JSON.parse(byId("timeline-about").textContent);
  const { names, short } = JSON.parse(new TextDecoder().decode(await unzipped("timeline-names")));
  const picture = pictureOn(canvas, about.styles, about.full);
  const LANE = 20, HEAD = 20, GAP = 6, AXIS = 22, LEAST_NS = 10, SNAP = 6, NEAR = 3, MOST_ARROWS = 20, PAPER = 700;
  const folded = new Set(), loaded = [];
  let shown, rows, groups, first, last, width = 1, height = 1;
  let selected = -1, works = [], marked = null, measured = null, matched = null, matches = 0, waiting = false;

  const scale = () => width / (last - first), xOf = ns => (ns - first) * scale(), nsAt = x => first + x / scale();
  const endOf = index => shown.start[index] + shown.length[index];
  const rowOf = index => shown.lanes.findIndex(lane => index < lane.to);
  const rowAt = y => rows.findIndex(row => y >= row.top - 1 && y < row.top + row.height + 1);
  const bar = index => ({ left: xOf(shown.start[index]), right: xOf(endOf(index)), ...rows[rowOf(index)] });
  const styleOf = index => about.styles[shown.style[index]];
  function label(index) {
    const name = short[shown.name[index]] || names[shown.name[index]], size = shown.size[index] - 1;
    return size >= 0 ? `${name} ${sizeText(size)}` : name;
  }

  // Lanes and their place. A folded group is as high as one lane, and shows all of its own.
  function arrange() {
    groups = [];
    shown.lanes.forEach((lane, number) => {
      if (!groups.length || groups.at(-1).key !== lane.group) groups.push({ key: lane.group, lanes: [] });
      groups.at(-1).lanes.push(number);
    });
    rows = [];
    let top = 0;
    for (const group of groups) {
      const count = group.lanes.length, closed = folded.has(group.key), each = closed ? Math.max(HEAD / count, 2) : LANE;
      group.top = top;
      group.first = top + (closed ? 0 : HEAD);
      group.lanes.forEach((number, at) => {
        rows[number] = { top: group.first + at * each + (closed ? 0 : 1), height: closed ? each : LANE - 2 };
      });
      top = group.first + count * each + GAP;
    }
    height = top;
    gutter.style.height = height + "px";
    gutter.replaceChildren(...groups.flatMap(gutterOf));
    fit();
  }
  function gutterOf(group) {
    const closed = folded.has(group.key), button = document.createElement("button");
    button.type = "button";
    button.textContent = `${closed ? "▸" : "▾"} ${group.key}`;
    button.title = `${closed ? "Unfold" : "Fold"} the ${group.lanes.length} lanes of ${group.key}`;
    button.setAttribute("aria-expanded", String(!closed));
    button.style.top = group.top + "px";
    button.addEventListener("click", () => fold(group.key));
    return [button, ...(closed ? [] : group.lanes).map((number, at) => {
      const title = document.createElement("span");
      title.textContent = title.title = shown.lanes[number].title;
      title.style.top = group.first + at * LANE + "px";
      return title;
    })];
  }
  function fold(key) {
    if (!folded.delete(key)) folded.add(key);
    const again = groups.findIndex(group => group.key === key);
    arrange();
    gutter.querySelectorAll("button")[again].focus();
  }
  function fit(wide) {
    width = Math.max((wide || place.clientWidth) - gutter.offsetWidth, 50);
    picture.resize(width, height, devicePixelRatio);
    sizeCanvas(axis, width, AXIS, devicePixelRatio);
    redraw();
  }

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(drawNow);
  }
  function drawNow() {
    waiting = false;
    const ratio = devicePixelRatio;
    const ticks = ticksWithin(Math.max(first, shown.begin), Math.min(last, shown.end), 90 / scale());
    picture.paint(shown, rows, first, scale() * ratio, ticks, label, matched);
    const pen = picture.context;
    pen.save();
    pen.scale(ratio, ratio);
    over(pen);
    pen.restore();
    paintAxis(axis, ticks, xOf, picture.palette().css);
  }
  // What lies over the bars: a finding's place, what was measured, the selected bar and arrows to what it launched.
  function over(pen) {
    const { css } = picture.palette();
    const frame = (left, right, top, bottom, colour, thick) =>
      strokeFrame(pen, Math.max(left, -9), Math.min(right, width + 9), top, bottom, css(colour), thick);
    if (marked) frame(xOf(marked[0]), xOf(marked[1]), 1, height - GAP, "--mark", 3);
    if (measured) {
      const [left, right] = measured.map(xOf);
      pen.globalAlpha = 0.15;
      pen.fillStyle = css("--link");
      pen.fillRect(left, 0, right - left, height);
      pen.globalAlpha = 1;
      frame(left, right, 0, height, "--link", 1);
      pen.font = "bold 12px system-ui, sans-serif";
      if (right - left > 60) pen.fillText(timeText(measured[1] - measured[0]), Math.max(left, 0) + 6, HEAD / 2);
    }
    if (selected < 0) return;
    const own = bar(selected);
    frame(own.left - 1, own.right + 1, own.top - 1, own.top + own.height + 1, "--mark", 3);
    pen.strokeStyle = pen.fillStyle = css("--link");
    pen.lineWidth = 1.5;
    const issuer = shown.issuer[selected] - 1;
    if (issuer >= 0) strokeArrow(pen, bar(issuer), own);
    else for (const index of works) strokeArrow(pen, own, bar(index));
  }
  function show(from, to) {
    const whole = shown.end - shown.begin, length = Math.min(Math.max(to - from, LEAST_NS), whole * 1.02);
    const centre = (from + to) / 2, lowest = shown.begin - 0.01 * whole, highest = shown.end + 0.01 * whole - length;
    first = Math.min(Math.max(centre - length / 2, lowest), Math.max(highest, lowest));
    last = first + length;
    const ends = [Math.max(first, shown.begin), Math.min(last, shown.end)];
    const [begin, end, all] = [...ends, ends[1] - ends[0]].map(timeText);
    said.textContent = `${shown.label}: ${begin} to ${end}, ${all} in all`;
    tip.style.display = "none";
    redraw();
  }
  const zoom = (factor, at = (first + last) / 2) => {
    const span = last - first, most = (shown.end - shown.begin) * 1.02;
    const by = Math.min(Math.max(factor, LEAST_NS / span), most / span);
    show(at - (at - first) * by, at + (last - at) * by);
  };
  const pan = part => show(first + part * (last - first), last + part * (last - first));
  const whole = () => { marked = measured = null; show(shown.begin - 1, shown.end + (shown.end - shown.begin)); };
  const around = (from, to, by = 0.75) => {
    const margin = Math.max(by * (to - from), LEAST_NS);
    show(from - margin, to + margin);
  };

  function barAt(x, y) {
    const number = rowAt(y);
    if (number < 0) return -1;
    const { from, to } = shown.lanes[number], at = nsAt(x), near = NEAR / scale();
    let best = -1, nearest = near, after = above(shown.start, from, to, at);
    const look = index => {
      const away = Math.max(shown.start[index] - at, at - endOf(index), 0);
      if (away < nearest || away === nearest && best < 0) { best = index; nearest = away; }
    };
    for (let index = after - 1; index >= from && shown.reach[index] > at - near && nearest > 0; index--) look(index);
    if (after < to) look(after);
    return best;
  }
  // How many bars begin in the pixel of a bar's begin, in its lane.
  function crowd(index) {
    const { from, to } = shown.lanes[rowOf(index)], pixel = 0.5 / scale(), at = shown.start[index];
    return above(shown.start, from, to, at + pixel) - above(shown.start, from, to, at - pixel);
  }

  const laneTitle = index => {
    const number = rowOf(index), { group } = shown.lanes[number];
    const title = shown.lanes.slice(0, number + 1).filter(lane => lane.group === group && lane.title).at(-1)?.title;
    return title ? `${group} ${title}` : group;
  };
  const element = (name, text, use) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (use) { made.type = "button"; made.addEventListener("click", use); }
    return made;
  };
  function select(index) {
    selected = index;
    details.hidden = index < 0;
    tip.style.display = "none";
    redraw();
    if (index < 0) return;
    works = issuedBy(shown, index, MOST_ARROWS);
    const issuer = shown.issuer[index] - 1, list = document.createElement("dl");
    for (const [fact, value] of factsOf(shown, index, about, names, laneTitle))
      list.append(element("dt", fact), element("dd", value));
    const buttons = document.createElement("p");
    if (issuer >= 0) buttons.append(element("button", "Go to its launch", () => go(issuer)));
    const code = styleOf(index).name.split(" ")[0], finding = document.querySelector(`.finding[data-code="${code}"]`);
    if (finding) buttons.append(element("button", "Go to its finding", () => finding.scrollIntoView()));
    if (works.length) buttons.append(element("button", "Go to its work", () => go(works[0])));
    buttons.append(element("button", "Zoom to it", () => around(shown.start[index], endOf(index), 0.2)),
      element("button", "Close", () => { select(-1); place.focus({ preventScroll: true }); }));
    details.replaceChildren(element("h3", names[shown.name[index]]), list, buttons);
  }
  // Select a bar, and bring it into view.
  function go(index) {
    const group = shown.lanes[rowOf(index)].group, begin = shown.start[index], length = shown.length[index];
    if (folded.has(group)) { folded.delete(group); arrange(); }
    const span = last - first, seen = begin >= first && endOf(index) <= last && length * scale() >= 8;
    if (!seen) {
      const wanted = length > span / 2 ? length * 2 : length * scale() < 8 ? Math.max(length, LEAST_NS) * 40 : span;
      show(begin + length / 2 - wanted / 2, begin + length / 2 + wanted / 2);
    }
    select(index);
    const at = canvas.getBoundingClientRect().top + bar(index).top, low = innerHeight - details.offsetHeight - LANE;
    if (at < 3 * LANE || at > low) scrollBy({ top: at - Math.max(low / 2, 3 * LANE) });
  }

  // Search: the bars whose name has a text. The next one is the next by begin, then by lane.
  function seek() {
    const text = sought.value.trim().toLowerCase();
    matched = text ? Uint8Array.from(names, name => name.toLowerCase().includes(text) ? 1 : 0) : null;
    matches = 0;
    if (matched) for (const number of shown.name) matches += matched[number];
    found.textContent = text ? `${countText(matches)} found` : "";
    redraw();
  }
  function clear() {
    sought.value = "";
    seek();
  }
  function step(way) {
    if (!matches) return;
    const next = nextFound(shown, matched, selected, way > 0 ? first : last, way);
    found.textContent = `${countText(next.place)} of ${countText(matches)}`;
    go(next.index);
  }

  // Keys go from bar to bar within a lane, and from lane to lane.
  function beside(way) {
    if (selected < 0) return fromLane(0, 1);
    const { from, to } = shown.lanes[rowOf(selected)], next = selected + way;
    if (next >= from && next < to) go(next);
  }
  function fromLane(number, way) {
    const at = selected < 0 ? first : shown.start[selected];
    for (; number >= 0 && number < shown.lanes.length; number += way) {
      const { from, to } = shown.lanes[number], after = above(shown.reach, from, to, at);
      if (to > from) return go(Math.min(after, to - 1));
    }
  }
  function leave() {
    marked = measured = null;
    select(-1);
  }
  // Measure the selected bar, or from what was measured on to it.
  function stretch() {
    if (selected < 0) return;
    const [from, to] = measured || [Infinity, -Infinity];
    measured = [Math.min(from, shown.start[selected]), Math.max(to, endOf(selected))];
    said.textContent = measuredText(bar(selected).top);
    redraw();
  }
  function closer() {
    if (measured) around(...measured, 0); else if (selected >= 0) around(shown.start[selected], endOf(selected), 0.2);
  }

  const lane = way => fromLane(selected < 0 ? 0 : rowOf(selected) + way, way);
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => zoom(0.5), ArrowDown: () => zoom(2),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: whole, Home: whole, Escape: leave, Enter: closer,
    ",": () => beside(-1), ".": () => beside(1), "[": () => lane(-1), "]": () => lane(1), m: stretch,
    n: () => step(1), p: () => step(-1), "/": () => sought.focus(),
    l: () => selected >= 0 && shown.issuer[selected] && go(shown.issuer[selected] - 1),
  };
  place.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || event.target !== place) return;
    event.preventDefault();
    keys[event.key]();
  });
  place.addEventListener("wheel", event => {
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey)
      zoom(Math.exp(event.deltaY * 0.002), nsAt(event.clientX - canvas.getBoundingClientRect().left));
    else if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) pan(sideways / width);
    else return;
    event.preventDefault();
  }, { passive: false });

  // Dragging measures; with Shift, or with a finger, it moves the timeline. Two fingers zoom. A click selects.
  let drag = null;
  const fingers = new Map(), apart = () => [...fingers.values()].reduce((one, other) => Math.abs(one - other));
  const snapped = (x, y) => {
    const index = barAt(x, y), edges = index < 0 ? [] : [shown.start[index], endOf(index)];
    return edges.find(edge => Math.abs(xOf(edge) - x) < SNAP) ?? Math.round(nsAt(x));
  };
  canvas.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event.offsetX);
    const moves = event.shiftKey || event.pointerType === "touch";
    drag = { x: event.offsetX, y: event.offsetY, from: snapped(event.offsetX, event.offsetY), first, moves, far: false };
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag) return hover(event);
    if (fingers.size > 1) {
      const before = apart(), x = fingers.set(event.pointerId, event.offsetX).get(event.pointerId);
      drag.far = true;
      return zoom(before / Math.max(apart(), 1), nsAt([...fingers.values()].find(other => other !== x) ?? x));
    }
    const by = drag.x - event.offsetX;
    drag.far ||= Math.abs(by) > 4;
    if (!drag.far) return;
    if (drag.moves) return show(drag.first + by / scale(), drag.first + by / scale() + last - first);
    tip.style.display = "none";
    measured = [drag.from, snapped(event.offsetX, drag.y)].sort((one, other) => one - other);
    said.textContent = measuredText(drag.y);
    redraw();
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && !drag.far) { measured = null; select(barAt(event.offsetX, event.offsetY)); }
    place.focus({ preventScroll: true });
  });
  canvas.addEventListener("lostpointercapture", event => { drag = null; fingers.delete(event.pointerId); });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  function measuredText(y) {
    const [from, to] = measured, text = `Measured: ${timeText(to - from)}, from ${exactText(from)} to ${exactText(to)}`;
    const number = rowAt(y);
    if (number < 0) return text;
    let bars = 0, busy = 0;
    const lane = shown.lanes[number];
    for (let index = above(shown.reach, lane.from, lane.to, from); index < lane.to && shown.start[index] < to; index++) {
      bars += 1 + shown.more[index];
      busy += (Math.min(endOf(index), to) - Math.max(shown.start[index], from)) * (1 - shown.empty[index] / about.full);
    }
    const many = `${countText(bars)} ${bars === 1 ? "bar" : "bars"}`;
    return `${text}. ${laneTitle(lane.from)}: ${many}, ${timeText(busy)} together`;
  }
  function hover(event) {
    const index = barAt(event.offsetX, event.offsetY);
    tip.style.display = index < 0 ? "none" : "block";
    if (index < 0) return;
    const others = crowd(index) - 1, size = shown.size[index] - 1;
    tip.textContent = [names[shown.name[index]] + (size >= 0 ? `, ${sizeText(size)}` : ""), styleOf(index).name,
      `at ${timeText(shown.start[index])}, for ${timeText(shown.length[index])}`,
      ...(others > 0 ? [`${others} more begin within this pixel`] : [])].join("\n");
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  }

  const every = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const choices = [...document.querySelectorAll("button[data-view]")];
  const range = about.styles.findIndex(style => style.name === "range");
  // Views are unpacked when they are first shown. The ranges that were in view stay there.
  async function choose(number) {
    const view = loaded[number] ??= await unpacked(about.views[number]);
    if (view === shown) return;
    const all = !shown || first <= shown.begin && last >= shown.end;
    const moments = all ? [] : momentsOf(shown, view, range);
    shown = view;
    selected = -1;
    marked = measured = null;
    details.hidden = true;
    byId("left-out").textContent = shown.left_out.join(" ");
    choices.forEach(button => button.setAttribute("aria-pressed", String(Number(button.dataset.view) === number)));
    arrange();
    if (all) whole();
    else if (moments.length) show(momentAt(moments, first), momentAt(moments, last));
    else show(first, last);
    seek();
  }
  every("button[data-view]", button => button.addEventListener("click", () => choose(Number(button.dataset.view))));
  every("button[data-do]", button => button.addEventListener("click", () => keys[button.dataset.do]()));
  // A finding's button shows its places one after the other, the longest first; so does the button of a table's row.
  every("button[data-places]", button => {
    const places = JSON.parse(button.dataset.places);
    let next = 0;
    button.closest("tr")?.addEventListener("click", event => event.target !== button && button.click());
    button.addEventListener("click", async event => {
      await choose(0);
      clear();
      select(-1);
      marked = places[next];
      next = (next + 1) % places.length;
      const now = `Shown: ${next || places.length} of ${places.length}, by length. Next`;
      if (places.length > 1 && button.dataset.counts) button.textContent = now;
      around(...marked);
      place.scrollIntoView({ block: "center" });
      if (event.detail) place.focus({ preventScroll: true }); // a key pressed again goes on to the next place
    });
  });
  let typed = 0;
  sought.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(seek, 150); });
  sought.addEventListener("keydown", event => {
    if (event.key === "Escape") { clear(); place.focus({ preventScroll: true }); }
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(typed);
    if (!matched || typed) { seek(); typed = 0; }
    step(event.shiftKey ? -1 : 1);
  });

  addEventListener("resize", () => fit());
  const recolour = () => { picture.recolour(); redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  // On paper it is light, whatever the screen is.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.print = "yes";
    picture.recolour();
    fit(PAPER);
    drawNow();
  });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.print; picture.recolour(); fit(); });
  await choose(0);
  drawNow();
  window.overlapscope = () => ({
    first, last, label: shown.label, begin: shown.begin, end: shown.end, measured, rows, matches, redraw: drawNow,
    selected: selected < 0 ? null : { name: names[shown.name[selected]], start: shown.start[selected] },
    bars: shown.start.length,
  });
  place.dataset.ready = "yes";
})();
