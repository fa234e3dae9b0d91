"use strict";
// The timeline of a report: bars of lanes, drawn on the canvas of uPlot, which has the axes, scales and cursor.
(async () => {
  const place = document.getElementById("timeline");
  const about = JSON.parse(document.getElementById("timeline-about").textContent);
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  const LANE = 22, LEAST_NS = 10, MARK = 0.4, UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

  // Bars: begin and length in ns, number of the name, number of the style; lane after lane, by begin.
  async function unpack(view) {
    const text = atob(document.getElementById(view.data).textContent);
    const zipped = Uint8Array.from(text, letter => letter.charCodeAt(0));
    const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
    const buffer = await new Response(stream).arrayBuffer(), n = view.bars;
    return {
      ...view, start: new Float64Array(buffer, 0, n), length: new Float32Array(buffer, 8 * n, n),
      name: new Uint32Array(buffer, 12 * n, n), style: new Uint8Array(buffer, 16 * n, n),
    };
  }
  const views = [];
  for (const view of about.views) views.push(await unpack(view));
  let shown = views[0], marked = null, beside = 0;

  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const time = ns => {
    if (!ns) return "0";
    const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) || [1, "ns"];
    return Number((ns / scale).toPrecision(4)) + " " + unit;
  };
  // The first index in [low, high) whose value is no less than this.
  const lower = (values, low, high, value) => {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  };

  // What is wider than a pixel is drawn as it is. Thinner bars share pixels: each has the colour of what fills most of
  // it, and a mark half as high for copies that fill less, as overlapscope/timeline/pixels.py has it for figures.
  function lane(from, to, box, first, scale, boxes) {
    const { left, top, width, height } = box, last = first + width / scale, low = top + height * (1 - MARK), lowest = top + height * (1 - MARK / 2);
    let index = Math.max(lower(shown.start, from, to, first) - 1, from), pixel = -1, filled = null;
    const flush = () => {
      if (!filled) return;
      let most = -1, best = -1, sum = 0;
      for (const [style, ns] of filled) { sum += ns; if (ns > most) { most = ns; best = style; } }
      const full = sum * scale >= 0.5;
      boxes[best].push(left + pixel, full ? top : low, 1, full ? height : height * MARK);
      for (const [style] of filled)
        if (style !== best && about.styles[style].copy) boxes[style].push(left + pixel, lowest, 1, height * MARK / 2);
      filled = null;
    };
    for (; index < to && shown.start[index] < last; index++) {
      const begin = (shown.start[index] - first) * scale, end = begin + shown.length[index] * scale;
      if (end < 0) continue;
      if (end - begin >= 1) {
        const cut = Math.max(begin, 0);
        boxes[shown.style[index]].push(left + cut, top, Math.min(end, width) - cut, height);
        continue;
      }
      const here = Math.max(Math.floor(begin), 0);
      if (here !== pixel) { flush(); pixel = here; }
      filled = filled || new Map();
      filled.set(shown.style[index], (filled.get(shown.style[index]) || 0) + shown.length[index]);
    }
    flush();
  }

  function paint(plot) {
    const { ctx, bbox } = plot, { min, max } = plot.scales.x, count = shown.lanes.length;
    const height = bbox.height / count, scale = bbox.width / (max - min), boxes = about.styles.map(() => []);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (let row = 0, from = 0; row < count; row++) {
      const to = from + shown.lanes[row].bars, top = bbox.top + (row + 0.1) * height;
      lane(from, to, { left: bbox.left, top, width: bbox.width, height: height * 0.8 }, min, scale, boxes);
      from = to;
    }
    boxes.forEach((box, style) => {
      ctx.fillStyle = css(about.styles[style].color);
      for (let at = 0; at < box.length; at += 4) ctx.fillRect(box[at], box[at + 1], box[at + 2], box[at + 3]);
    });
    names(ctx, bbox, min, scale, height);
    if (marked) {
      ctx.strokeStyle = css("--mark");
      ctx.lineWidth = 3 * devicePixelRatio;
      const left = bbox.left + (marked[0] - min) * scale;
      ctx.strokeRect(left, bbox.top + 1, (marked[1] - marked[0]) * scale, bbox.height - 2);
    }
    ctx.restore();
  }

  // The names of ranges that have room for theirs, and a white line where one ends.
  function names(ctx, bbox, min, scale, height) {
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const last = min + bbox.width / scale;
    for (let row = 0, from = 0; row < shown.lanes.length; row++) {
      const to = from + shown.lanes[row].bars;
      for (let index = from; shown.lanes[row].named && index < to && shown.start[index] < last; index++) {
        const begin = Math.max((shown.start[index] - min) * scale, 0);
        const end = Math.min((shown.start[index] + shown.length[index] - min) * scale, bbox.width);
        if (end - begin < 12 * devicePixelRatio) continue;
        ctx.fillStyle = css("--back");
        ctx.fillRect(bbox.left + end - 1, bbox.top + row * height, 1, height);
        ctx.fillStyle = css("--front");
        const text = about.names[shown.name[index]];
        if (ctx.measureText(text).width < end - begin - 6) ctx.fillText(text, bbox.left + begin + 3, bbox.top + (row + 0.5) * height);
      }
      from = to;
    }
  }

  function barAt(plot, x, y) {
    const row = Math.floor(y / plot.over.clientHeight * shown.lanes.length);
    if (row < 0 || row >= shown.lanes.length) return -1;
    let from = 0;
    for (let before = 0; before < row; before++) from += shown.lanes[before].bars;
    const to = from + shown.lanes[row].bars, at = plot.posToVal(x, "x");
    const pixel = (plot.scales.x.max - plot.scales.x.min) / plot.over.clientWidth, next = lower(shown.start, from, to, at);
    let best = -1, distance = 3 * pixel;
    const look = index => {
      const away = Math.max(shown.start[index] - at, at - shown.start[index] - shown.length[index], 0);
      if (away < distance) { best = index; distance = away; }
    };
    for (let index = next - 1; index >= Math.max(from, next - 64); index--) look(index);
    for (let index = next; index < Math.min(to, next + 64); index++) look(index);
    const first = lower(shown.start, from, to, at - pixel / 2);
    beside = Math.max(lower(shown.start, from, to, at + pixel / 2) - first - 1, 0);
    return best;
  }
  const words = index => about.names[shown.name[index]] + "\n" + about.styles[shown.style[index]].name
    + "\nat " + time(shown.start[index]) + ", for " + time(shown.length[index])
    + (beside ? `\n${beside} more begin within this pixel` : "");

  function show(first, last) {
    if (first === -Infinity) { first = shown.begin; last = 2 * shown.end - shown.begin; }
    const whole = shown.end - shown.begin, length = Math.min(Math.max(last - first, LEAST_NS), whole * 1.02);
    const begin = Math.min(Math.max(first, shown.begin - 0.01 * whole), shown.end + 0.01 * whole - length);
    plot.setScale("x", { min: begin, max: begin + length });
    said.textContent = `${shown.label}: ${time(Math.max(begin, shown.begin))} to ${time(Math.min(begin + length, shown.end))}`;
  }
  const zoom = (factor, at) => {
    const { min, max } = plot.scales.x, fixed = at === undefined ? (min + max) / 2 : at;
    show(fixed - (fixed - min) * factor, fixed + (max - fixed) * factor);
  };
  const pan = part => { const { min, max } = plot.scales.x; show(min + part * (max - min), max + part * (max - min)); };
  const whole = () => { marked = null; show(-Infinity, Infinity); };

  const size = () => ({ width: place.clientWidth, height: shown.lanes.length * LANE + 50 });
  const lines = { grid: { stroke: () => css("--line") }, ticks: { stroke: () => css("--line") } };
  const plot = new uPlot({
    ...size(),
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: {
      x: { time: false, auto: false, min: shown.begin, max: shown.end },
      y: { auto: false, dir: -1, range: () => [0, shown.lanes.length] },
    },
    series: [{}, { points: { show: false }, stroke: "transparent" }],
    axes: [
      { stroke: () => css("--front"), ...lines, values: (_, ticks) => ticks.map(time), space: 80 },
      {
        stroke: () => css("--front"), grid: { show: false }, ticks: { show: false }, size: 160, gap: 8,
        splits: () => shown.lanes.map((_, row) => row + 0.5), values: () => shown.lanes.map(entry => entry.title),
        font: "12px system-ui, sans-serif",
      },
    ],
    hooks: {
      draw: [paint],
      setCursor: [plot => {
        const { left, top } = plot.cursor, index = left < 0 ? -1 : barAt(plot, left, top);
        tip.style.display = index < 0 ? "none" : "block";
        if (index < 0) return;
        tip.textContent = words(index);
        const box = plot.over.getBoundingClientRect();
        tip.style.left = Math.min(box.left + left + 14, innerWidth - tip.offsetWidth - 8) + "px";
        tip.style.top = Math.min(box.top + top + 14, innerHeight - tip.offsetHeight - 8) + "px";
      }],
    },
  }, [[shown.begin, shown.end], [0, 0]], place);

  plot.over.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"));
  }, { passive: false });
  plot.over.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    const { min, max } = plot.scales.x, begun = event.clientX;
    plot.over.setPointerCapture(event.pointerId);
    const move = event => {
      const by = (begun - event.clientX) / plot.over.clientWidth * (max - min);
      show(min + by, max + by);
    };
    plot.over.addEventListener("pointermove", move);
    plot.over.addEventListener(
      "lostpointercapture", () => plot.over.removeEventListener("pointermove", move), { once: true });
  });
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => zoom(0.5), ArrowDown: () => zoom(2),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: whole, Home: whole,
  };
  place.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  const on = (selector, act) => document.querySelectorAll(selector).forEach(
    button => button.addEventListener("click", () => act(button.dataset)));
  const choices = [...document.querySelectorAll("button[data-view]")];
  function choose(number) {
    shown = views[number];
    choices.forEach(button => button.setAttribute("aria-pressed", String(Number(button.dataset.view) === number)));
    plot.setSize(size());
  }
  on("button[data-view]", data => {
    const { min, max } = plot.scales.x;
    marked = null;
    choose(Number(data.view));
    show(min, max);
  });
  on("button[data-do]", data => keys[data.do]());
  // A finding's button shows its places one after the other, the longest first.
  document.querySelectorAll("button[data-places]").forEach(button => {
    const places = JSON.parse(button.dataset.places);
    let next = 0;
    button.addEventListener("click", event => {
      choose(0);
      marked = places[next];
      next = (next + 1) % places.length;
      if (places.length > 1) button.textContent = `Shown: ${next || places.length} of ${places.length}, by length. Next`;
      const around = Math.max(0.75 * (marked[1] - marked[0]), LEAST_NS);
      show(marked[0] - around, marked[1] + around);
      place.scrollIntoView({ block: "center" });
      if (event.detail) place.focus({ preventScroll: true }); // a key pressed again goes on to the next place
    });
  });
  addEventListener("resize", () => plot.setSize(size()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw());
  // On paper it is light, whatever the screen is.
  addEventListener("beforeprint", () => { document.documentElement.dataset.print = "yes"; plot.setSize({ ...size(), width: 700 }); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.print; plot.setSize(size()); });
  window.overlapscope = () => (
    { first: plot.scales.x.min, last: plot.scales.x.max, label: shown.label, begin: shown.begin, end: shown.end });
  whole();
  place.dataset.ready = "yes";
})();
