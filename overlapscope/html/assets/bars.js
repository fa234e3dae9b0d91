"use strict";
// The bars of a timeline: how they are unpacked and found, and what is known of one.

const WIDE_COLUMNS = new Set(["start", "length", "size"]), NARROW_COLUMNS = new Set(["style", "entry_kind"]);
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

const timeText = ns => {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) || [1, "ns"];
  return ns ? Number((ns / scale).toPrecision(4)) + " " + unit : "0";
};
// All digits of a time, which timeText would round.
const exactText = ns => {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale) || [1, "ns"];
  return ns ? Number((ns / scale).toPrecision(15)) + " " + unit : "0";
};
const sizeText = bytes => {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 3);
  return Number((bytes / 2 ** (10 * power)).toPrecision(3)) + " " + ["B", "KiB", "MiB", "GiB"][power];
};

const countText = number => number.toLocaleString("en");
// The first index in [low, high) whose value is more than this.
function above(values, low, high, value) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

async function unzipped(id) {
  const letters = atob(document.getElementById(id).textContent), zipped = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) zipped[at] = letters.charCodeAt(at);
  return new Response(new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// Columns as overlapscope/html/packing.py packs them: bytes by significance, some columns as differences.
function columnsOf(described, bytes) {
  const columns = {};
  let at = 0;
  for (const { name, rows, bytes: width, differences } of described) {
    const values = new Float64Array(rows);
    for (let plane = 0, scale = 1; plane < width; plane++, scale *= 256, at += rows)
      for (let row = 0; row < rows; row++) values[row] += bytes[at + row] * scale;
    for (let row = 0, sum = 0; differences && row < rows; row++) {
      sum += values[row] % 2 ? -(values[row] + 1) / 2 : values[row] / 2;
      values[row] = sum;
    }
    columns[name] = WIDE_COLUMNS.has(name) ? values
      : NARROW_COLUMNS.has(name) ? new Uint8Array(values) : new Uint32Array(values);
  }
  return columns;
}

// A view with its bars; each lane with its bars' first and last index and its styles. `reach` is the latest end of a
// bar and of those before it in its lane: it rises, so that the first bar within a window can be searched for.
async function unpacked(view) {
  const bars = columnsOf(view.columns, new Uint8Array(await unzipped(view.data)));
  const reach = new Float64Array(bars.start.length);
  let from = 0;
  const lanes = view.lanes.map(lane => {
    const first = from, to = from += lane.bars, used = new Uint8Array(256);
    for (let index = first, latest = -Infinity; index < to; index++) {
      reach[index] = latest = Math.max(latest, bars.start[index] + bars.length[index]);
      used[bars.style[index]] = 1;
    }
    return { ...lane, from: first, to, styles: [...used.keys()].filter(style => used[style]) };
  });
  return { ...view, ...bars, reach, lanes };
}

// Moments of two views of one program that belong together: the edges of their ranges, as far as both have the same
// ranges one after the other, and of all that each shows. Each is a pair of times; neither goes back.
function momentsOf(one, other, range) {
  const filled = view => view.lanes.filter(({ from, to }) => to > from);
  const begin = view => Math.min(...filled(view).map(({ from }) => view.start[from]));
  const end = view => Math.max(...filled(view).map(({ to }) => view.reach[to - 1]));
  const pairs = [[begin(one), begin(other)], [end(one), end(other)]].filter(pair => pair.every(Number.isFinite));
  one.lanes.forEach(({ from, to }, number) => {
    const lane = other.lanes[number];
    for (let at = 0; lane && at < Math.min(to - from, lane.to - lane.from); at++) {
      const [left, right] = [from + at, lane.from + at];
      if (one.style[left] !== range || other.style[right] !== range || one.name[left] !== other.name[right]) break;
      pairs.push([one.start[left], other.start[right]]);
      pairs.push([one.start[left] + one.length[left], other.start[right] + other.length[right]]);
    }
  });
  pairs.sort((left, right) => left[0] - right[0] || left[1] - right[1]);
  let latest = -Infinity;
  return pairs.map(([left, right]) => [left, latest = Math.max(latest, right)]);
}
// The moment of the other view for a time of the one: between two moments in proportion, beyond them as far away.
function momentAt(moments, time) {
  const after = moments.findIndex(([left]) => left > time);
  if (after < 1) {
    const [left, right] = after ? moments.at(-1) : moments[0];
    return right + time - left;
  }
  const [[left, right], [next, then]] = [moments[after - 1], moments[after]];
  return right + (time - left) / (next - left) * (then - right);
}

// The bars that a call issued, the first ones.
function issuedBy(view, call, most) {
  const found = [];
  for (let index = 0; index < view.issuer.length && found.length < most; index++)
    if (view.issuer[index] === call + 1) found.push(index);
  return found;
}

// The next bar, by begin, then by lane, whose name was found: after another bar, or after a time where that is none.
// Behind the last one comes the first. Its place is counted among all that were found.
function nextFound(view, matched, from, time, way) {
  const { start, name } = view, order = (one, other) => start[one] - start[other] || one - other;
  let next = -1, furthest = -1, place = 0;
  for (let index = 0; index < name.length; index++) {
    if (!matched[name[index]]) continue;
    const ahead = from < 0 ? way * (start[index] - time) >= 0 : way * order(index, from) > 0;
    if (ahead && (next < 0 || way * order(index, next) < 0)) next = index;
    if (furthest < 0 || way * order(index, furthest) < 0) furthest = index;
  }
  if (next < 0) next = furthest;
  for (let index = 0; index < name.length; index++) place += matched[name[index]] && order(index, next) <= 0;
  return { index: next, place };
}

// The entries of the stack in which a bar was issued, innermost first.
function stackOf(view, index) {
  const entries = [];
  for (let entry = view.stack[index] - 1; entry >= 0; entry = view.entry_outer[entry] - 1) entries.push(entry);
  return entries;
}

// What is known of a bar, as pairs of words and values; `laneTitle` gives the title of a bar's lane.
function factsOf(view, index, about, names, laneTitle) {
  const size = view.size[index] - 1, more = view.more[index], issuer = view.issuer[index] - 1;
  const stack = stackOf(view, index);
  const nameOf = entry => names[view.entry_name[entry]], fill = 1 - view.empty[index] / about.full;
  const operator = stack.find(entry => about.kinds[view.entry_kind[entry]] === "operator");
  const facts = [["kind", about.styles[view.style[index]].name], ["lane", laneTitle(index)],
    ["begin", exactText(view.start[index])], ["duration", timeText(view.length[index])]];
  const rate = Number((size / view.length[index]).toPrecision(3));
  if (size >= 0) facts.push(["bytes", `${countText(size)} (${sizeText(size)}, ${rate} GB/s)`]);
  if (more) facts.push(["merged", `${countText(more + 1)} bars, which fill ${Math.round(100 * fill)} % of it`]);
  if (issuer >= 0) {
    const before = timeText(view.start[index] - view.start[issuer]);
    facts.push(["launched by", `${names[view.name[issuer]]} on ${laneTitle(issuer)}, ${before} before`]);
  }
  if (operator !== undefined) facts.push(["operator", nameOf(operator)]);
  if (stack.length) facts.push(["stack", stack.map(nameOf).join("\n")]);
  return facts;
}
