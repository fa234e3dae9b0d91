"use strict";
// The bars of a timeline as pixels, with the names that fit; and an axis. Nothing here knows the page around the canvas.

const MOST_WIDTHS = 20000; // of texts that are remembered
const LEAST_MARK = 0.35; // of a pixel's height, for what fills less

const channels = colour => [0, 8, 16].map(shift => (colour >> shift) & 255);
// A colour over another one, which shows through; the channels of red and blue are mixed in one go.
function mixed(over, under, share) {
  const part = Math.round(share * 256), rest = 256 - part;
  const ends = ((over & 0xff00ff) * part + (under & 0xff00ff) * rest) >>> 8 & 0xff00ff;
  const middle = ((over & 0xff00) * part + (under & 0xff00) * rest) >>> 8 & 0xff00;
  return (0xff000000 | ends | middle) >>> 0;
}
const pixelOf = css => {
  const hex = css.length === 4 ? css.replace(/\w/g, "$&$&") : css, rgb = parseInt(hex.slice(1), 16);
  return (0xff000000 | (rgb & 255) << 16 | rgb & 0xff00 | rgb >> 16) >>> 0;
};

// Colours as pixels: of each style plain, faded for what a search does not find, dark for its left edge, and of its text.
function paletteOf(styles) {
  const look = getComputedStyle(document.documentElement), css = name => look.getPropertyValue(name).trim();
  const back = pixelOf(css("--back")), front = css("--front");
  const plain = styles.map(style => pixelOf(css(style.color)));
  return {
    css, back, front, line: pixelOf(css("--line")), plain,
    faded: plain.map(colour => mixed(colour, back, 0.2)), edge: plain.map(colour => mixed(0xff000000, colour, 0.3)),
    text: plain.map(colour => {
      const [red, green, blue] = channels(colour);
      return 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#111" : "#fff";
    }),
  };
}

// Paints one lane into pixels. A bar of a pixel or more has its own place. Of shorter ones each pixel shows by height
// which share of it every style fills; what fills less than a pixel of height is paler, but never vanishes.
// Merged bars are as high as the share of them that is filled. Gives the bars that have room for a name.
function paintLane(paper, view, lane, box, palette, matched) {
  const { pixels, width, ground, row, sums } = paper, { top, height, first, scale } = box;
  const { start, length, style, name, empty, reach } = view, full = paper.full;
  const last = first + width / scale, slots = lane.styles.length * 2, slotOf = paper.slotOf, roomy = [], partial = [];
  lane.styles.forEach((number, slot) => { slotOf[number] = slot * 2; });
  row.set(ground);
  let low = width, high = -1;
  const add = (slot, pixel, amount) => {
    if (pixel < 0 || pixel >= width) return;
    sums[pixel * slots + slot] += amount;
    if (pixel < low) low = pixel;
    if (pixel > high) high = pixel;
  };
  for (let index = above(reach, lane.from, lane.to, first); index < lane.to && start[index] < last; index++) {
    const begin = (start[index] - first) * scale, wide = length[index] * scale, end = begin + wide;
    const dim = matched && !matched[name[index]] ? 1 : 0, filled = 1 - empty[index] / full;
    if (wide < 1) {
      const pixel = Math.floor(begin), over = Math.max(end - pixel - 1, 0), slot = slotOf[style[index]] + dim;
      add(slot, pixel, Math.max((wide - over) * filled, 1e-9));
      if (over) add(slot, pixel + 1, over * filled);
      continue;
    }
    const left = Math.max(begin, 0), right = Math.min(end, width);
    const colour = (dim ? palette.faded : palette.plain)[style[index]];
    if (empty[index]) { partial.push(left, right, filled, colour); continue; }
    const inner = Math.ceil(left), outer = Math.floor(right);
    if (inner > left) row[inner - 1] = mixed(colour, row[inner - 1], inner - left);
    for (let x = inner; x < outer; x++) row[x] = colour;
    if (right > outer) row[outer] = mixed(colour, row[outer], right - outer);
    if (right - left >= paper.roomForEdge && begin >= 0 && !dim) row[inner] = palette.edge[style[index]];
    if (right - left >= paper.roomForName) roomy.push(index, left, right);
  }
  for (let y = top; y < top + height; y++) pixels.set(row, y * width);
  for (let at = 0; at < partial.length; at += 4) {
    const upper = top + height - Math.max(Math.round(partial[at + 2] * height), 1);
    for (let y = upper; y < top + height; y++)
      pixels.fill(partial[at + 3], y * width + Math.floor(partial[at]), y * width + Math.ceil(partial[at + 1]));
  }
  for (let pixel = low; pixel <= high; pixel++)
    for (let slot = 0, done = 0; slot < slots; slot++) {
      const part = sums[pixel * slots + slot] * height;
      if (!part) continue;
      sums[pixel * slots + slot] = 0;
      const colour = (slot % 2 ? palette.faded : palette.plain)[lane.styles[slot >> 1]];
      const from = Math.min(done, height - LEAST_MARK), until = Math.min(done + Math.max(part, LEAST_MARK), height);
      for (let level = Math.floor(from); level < until; level++) {
        const covered = Math.min(until, level + 1) - Math.max(from, level), at = (top + height - 1 - level) * width + pixel;
        pixels[at] = covered >= 1 ? colour : mixed(colour, pixels[at], covered);
      }
      done += part;
    }
  return roomy;
}

// Round times, at least so far apart.
function ticksWithin(begin, end, least) {
  const power = 10 ** Math.floor(Math.log10(least)), ticks = [];
  const step = Math.max([1, 2, 5, 10].find(times => times * power >= least) * power, 1);
  for (let tick = Math.ceil(begin / step) * step; tick <= end; tick += step) ticks.push(tick);
  return ticks;
}

// Where ticks are close together, they are counted from the first one.
function paintAxis(canvas, ticks, xOf, css) {
  const pen = canvas.getContext("2d"), ratio = devicePixelRatio;
  const width = canvas.width / ratio, bottom = canvas.height / ratio;
  const base = ticks.length > 1 && ticks[0] / (ticks[1] - ticks[0]) > 20000 ? ticks[0] : 0;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, bottom);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = css("--front");
  let free = 0;
  for (const tick of ticks) {
    const text = base && tick > base ? "+" + exactText(tick - base) : exactText(tick), wide = pen.measureText(text).width;
    const left = Math.max(xOf(tick) - wide / 2, 0);
    if (left < free || left + wide > width) continue;
    pen.fillText(text, left, bottom - 8);
    free = left + wide + 8;
  }
}

function sizeCanvas(canvas, width, height, ratio) {
  canvas.width = Math.max(Math.round(width * ratio), 1);
  canvas.height = Math.max(Math.round(height * ratio), 1);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
}

function strokeFrame(pen, left, right, top, bottom, colour, thick) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  if (right > left) pen.strokeRect(left, top, Math.max(right - left, 1), bottom - top);
}

// From the begin of a bar to the begin of another one, with a head.
function strokeArrow(pen, from, to) {
  const down = to.top > from.top, x0 = Math.max(from.left, -1e4), x1 = Math.min(to.left, 1e4), head = down ? -7 : 7;
  const y0 = from.top + (down ? from.height : 0), y1 = to.top + (down ? 0 : to.height), bend = (y1 - y0) / 2;
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 4, y1 + head);
  pen.lineTo(x1 + 4, y1 + head);
  pen.fill();
}

// A canvas for bars: `paint` puts lanes, and the names that fit, on it.
function pictureOn(canvas, styles, full) {
  const context = canvas.getContext("2d"), widths = new Map();
  let palette = paletteOf(styles), paper = null, image = null;

  function resize(width, height, ratio) {
    sizeCanvas(canvas, width, height, ratio);
    image = new ImageData(canvas.width, canvas.height);
    const wide = canvas.width;
    paper = {
      ratio, full, width: wide, pixels: new Uint32Array(image.data.buffer), slotOf: new Uint8Array(256),
      ground: new Uint32Array(wide), row: new Uint32Array(wide), sums: new Float32Array(wide * styles.length * 2),
      roomForEdge: 5 * ratio, roomForName: 22 * ratio,
    };
    widths.clear();
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
  }

  // As much of a text as has room, and nothing where that would say nothing.
  function cut(text, room) {
    const wide = widthOf(text);
    if (wide <= room) return text;
    let letters = Math.floor(text.length * room / wide);
    while (letters > 2 && widthOf(text.slice(0, letters) + "…") > room) letters--;
    return letters < 3 ? "" : text.slice(0, letters) + "…";
  }
  function widthOf(text) {
    if (widths.size > MOST_WIDTHS) widths.clear();
    let wide = widths.get(text);
    if (wide === undefined) widths.set(text, wide = context.measureText(text).width);
    return wide;
  }

  function paint(view, rows, first, scale, ticks, names, matched) {
    const labels = [];
    paper.ground.fill(palette.back);
    for (const tick of ticks) {
      const x = Math.round((tick - first) * scale);
      if (x >= 0 && x < paper.width) paper.ground[x] = palette.line;
    }
    for (let y = 0; y < canvas.height; y++) paper.pixels.set(paper.ground, y * paper.width);
    view.lanes.forEach((lane, number) => {
      const top = Math.round(rows[number].top * paper.ratio);
      const height = Math.max(Math.round((rows[number].top + rows[number].height) * paper.ratio) - top, 1);
      const roomy = paintLane(paper, view, lane, { top, height, first, scale }, palette, matched);
      if (rows[number].height >= 14) labels.push([roomy, top + height / 2]);
    });
    context.putImageData(image, 0, 0);
    for (const [roomy, middle] of labels)
      for (let at = 0; at < roomy.length; at += 3) {
        const index = roomy[at], text = cut(names(index), roomy[at + 2] - roomy[at + 1] - 8 * paper.ratio);
        if (!text) continue;
        context.fillStyle = matched && !matched[view.name[index]] ? palette.front : palette.text[view.style[index]];
        context.fillText(text, roomy[at + 1] + 4 * paper.ratio, middle);
      }
  }
  return { context, resize, paint, palette: () => palette, recolour: () => { palette = paletteOf(styles); } };
}
