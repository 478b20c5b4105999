// Memory over the steps of a plan, or over time: who is where, from when to when.

/** The memory of one device. `blocks` have `from`, `to` and `y`; the cursor lists what is there at a moment. */
class MemoryChart {
  constructor(parent, given) {
    Object.assign(this, given);
    this.cursor = this.busiest = busiest(this.blocks);
    const used = KINDS.filter(([kind]) => this.blocks.some(block => block.kind === kind));
    this.note = h("p", { class: "note", "data-most": this.most });
    this.list = h("div", {});
    parent.append(h("h2", {}, this.title), this.note, legend(used));
    this.chart = new Chart(parent, {
      height: 380, end: this.end, nameX: this.nameX, nameY: "bytes", formatX: this.formatX, draw: chart => this.draw(chart),
    });
    this.chart.svg.addEventListener("click", event => this.point(this.round(this.chart.at(event.clientX))));
    parent.append(this.list);
    this.point(this.cursor);
    on("search", words => { this.words = words; this.chart.redraw(); });
  }

  draw(chart) {
    chart.top = Math.max(this.scale ?? this.peak, 1) * 1.04;
    const seen = this.blocks.filter(block => block.to >= chart.from && block.from <= chart.to);
    const [left, right, y, x] = [chart.margin.left, chart.margin.left + chart.width, chart.y(this.peak), chart.x(this.cursor + this.half)];
    const peak = s("line", { class: "peak", x1: left, x2: right, y1: y, y2: y, ...tipped(() => [this.peakName, bytes(this.peak)]) });
    const cursor = s("line", { class: "cursor", x1: x, x2: x, y1: chart.margin.top, y2: chart.height - chart.margin.bottom });
    return [chart.axes(), chart.clipped([seen.map(block => this.rect(chart, block)), cursor, peak])];
  }

  rect(chart, block) {
    const [x, right] = [chart.x(block.from), chart.x(block.to)];
    const height = Math.max(0.5, chart.y(0) - chart.y(block.bytes));
    const searched = this.words?.length > 0;
    const found = searched && this.words.every(word => blockWords(block, this.side).includes(word));
    return s("rect", {
      class: ["block", block.kind === "arena" ? "arena" : null, found ? "match" : null, height < 3 ? "thin" : null].filter(Boolean).join(" "),
      x, width: Math.max(1, right - x), y: chart.y(block.y + block.bytes), height,
      fill: `var(--${block.kind})`, opacity: searched && !found ? 0.15 : null,
      "data-block": block.name, onclick: () => showBlock(block, this.side, this.duration(block)), ...tipped(() => this.tip(block)),
    });
  }

  tip(block) {
    return [`${block.name} ${block.type}`, `${kindName(block.kind)}, ${bytes(block.bytes)}`, block.label && `label: ${block.label}`,
      this.duration(block), block.line === null ? null : this.side.lines[block.line].at];
  }

  /** Lists what is in memory at a moment. */
  point(at) {
    this.cursor = Math.min(Math.max(0, at), this.end);
    const alive = this.blocks.filter(block => block.from <= this.cursor && block.to > this.cursor);
    const held = alive.filter(block => block.kind !== "arena");
    const sum = held.reduce((sum, block) => sum + block.bytes, 0);
    const most = this.busiest === this.cursor ? ", the most at any moment" : "";
    this.note.replaceChildren(`${this.peakName} ${bytes(this.peak)} (dashed). ${this.moment(this.cursor)}: ${bytes(sum)} in `
      + `${grouped(held.length)} blocks${most}. Select another moment in the chart.`);
    this.list.replaceChildren(blockTable(groupBlocks(held), sum, this.side));
    this.chart?.redraw();
  }
}

const blockWords = (block, side) =>
  [block.name, kindName(block.kind), block.label, block.line === null ? "" : side.lines[block.line].at].join("\n").toLowerCase();

/** The memory of a plan on one device, over its steps. */
function planMemory(parent, plan, side, { device, blocks, peak }) {
  const steps = Math.max(1, plan.steps.length);
  const nodeAt = step => plan.nodes[plan.steps[step]];
  for (const block of blocks) {
    block.from = block.first;
    block.to = block.last + 1;
    block.whole = block.first === 0 && block.to === steps;
    block.node = block.whole ? undefined : nodeAt(block.first);
  }
  return new MemoryChart(parent, {
    title: `Memory of ${device}`, device, side, blocks: place(blocks), peak, most: peak, peakName: "Planned peak", end: steps, half: 0.5,
    nameX: "step of the plan", formatX: at => Number.isInteger(at) ? grouped(at) : "", round: at => Math.min(steps - 1, Math.floor(at)),
    moment: step => `At step ${grouped(step)}${nodeAt(step) ? ` (${nodeAt(step).name})` : ""}`,
    duration: block => block.whole ? "the whole plan" : `from step ${grouped(block.first)} to ${grouped(block.last)} of ${grouped(steps)}`,
  });
}

/** Puts what stays at the bottom, and intermediates above where the planner put them. */
function place(blocks) {
  const order = KINDS.map(([kind]) => kind);
  const whole = blocks.filter(block => block.offset === null)
    .sort((a, b) => a.from - b.from || order.indexOf(a.kind) - order.indexOf(b.kind) || b.bytes - a.bytes);
  let y = 0;
  for (const block of whole) {
    block.y = y;
    y += block.bytes;
  }
  const inside = blocks.filter(block => block.offset !== null);
  inside.forEach(block => { block.y = y + block.offset; });
  return [...whole, ...inside];
}

/** The memory of a profile on one device, over time. */
function profileMemory(parent, side, device) {
  const { profile } = side, end = profile.span;
  const before = profile.memory.before.find(one => one.device === device);
  const parts = before.parts.filter(part => part.device === device);
  const known = parts.reduce((sum, part) => sum + part.bytes, 0) <= before.bytes ? parts : [];
  const timed = profile.memory.blocks.map(block => ({ ...block, from: block.start, to: block.end }));
  timed.forEach(block => { block.above = block.parent === undefined ? null : timed[block.parent]; });
  const own = timed.filter(block => block.device === device);
  const sum = blocks => blocks.reduce((sum, block) => sum + block.bytes, 0);
  const rest = before.bytes - sum(known) - sum(own.filter(block => block.old));
  const stays = known.map(part => ({ ...part, from: 0, to: end * 2, stays: true }));
  if (rest > 0) {
    stays.push({ device, kind: "other", name: "in use before the profile", type: "", label: "", line: null, bytes: rest, from: 0, to: end * 2, stays: true });
  }
  const blocks = [...stays, ...own];
  stack(blocks);
  return new MemoryChart(parent, {
    title: `Memory of ${device}`, device, side, blocks, peak: Math.max(...blocks.map(block => block.y + block.bytes)), most: most(blocks),
    peakName: "Most in use", end, half: 0, nameX: "time", formatX: seconds, round: at => at, moment: at => `At ${seconds(at)}`,
    duration: block => block.stays ? "there all the time" : `from ${seconds(block.from)} to ${seconds(block.to)}, for ${seconds(block.to - block.from)}`,
  });
}

/** Gives each block the lowest place that is free as long as it is there; what is inside another, its place there. */
function stack(blocks) {
  let live = [];
  const outer = blocks.filter(block => !block.above).sort((a, b) => a.from - b.from || b.to - a.to);
  for (const block of outer) {
    live = live.filter(other => other.to > block.from);
    let y = 0, at = 0;
    for (; at < live.length && y + block.bytes > live[at].y; at++) y = Math.max(y, live[at].y + live[at].bytes);
    block.y = y;
    live.splice(at, 0, block);
  }
  blocks.filter(block => block.above).forEach(block => { block.y = block.above.y + block.offset; });
}

/** The moments at which what is in memory changes, with how much there is then; blocks within others do not count twice. */
function levels(blocks) {
  const changes = blocks.filter(block => block.kind !== "arena").flatMap(block => [[block.from, block.bytes], [block.to, -block.bytes]]);
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  return changes.map(([at, change]) => [at, now += change]);
}
const busiest = blocks => levels(blocks).reduce((best, level) => level[1] > best[1] ? level : best, [0, -1])[0];
const most = blocks => Math.max(0, ...levels(blocks.filter(block => !block.above).map(block => ({ ...block, kind: "" }))).map(level => level[1]));

/** Equal blocks in one row. */
function groupBlocks(blocks) {
  const groups = Map.groupBy(blocks, block => [block.kind, block.name, block.type, block.label, block.line].join("\n"));
  const rows = [...groups.values()].map(group => ({ ...group[0], times: group.length, bytes: group.reduce((sum, block) => sum + block.bytes, 0) }));
  return rows.sort((a, b) => b.bytes - a.bytes);
}

function blockTable(rows, sum, side) {
  const cells = row => [
    [h("span", {}, swatch(row.kind), kindName(row.kind)), "text"], [row.times > 1 ? `${row.name} (${row.times} blocks)` : row.name, "text"], [row.type, "text mono"],
    [bytes(row.bytes)], [percent(row.bytes / sum)], [row.label || "", "text"], [row.line === null ? "" : shortLine(side.lines[row.line].at), "text"],
  ];
  const heads = [["kind", "text"], ["made by", "text"], ["type", "text"], ["bytes"], ["share"], ["label", "text"], ["line", "text"]];
  return h("table", { class: "blocks" },
    h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { class: kind }, name)))),
    h("tbody", {}, rows.map(row => h("tr", {}, cells(row).map(([value, kind]) => h("td", { class: kind }, value))))));
}

function memoryView(parent) {
  parent.classList.add("chart-view");
  const columns = SIDES.length > 1 ? h("div", { class: "compared" }, SIDES.map((side, number) => h("div", {}, h("h2", {}, number ? "After" : "Before")))) : null;
  if (columns) parent.append(columns);
  const charts = SIDES.flatMap((side, number) => sideMemory(columns ? columns.children[number] : parent, side));
  // Both sides of a comparison are drawn to one scale.
  for (const chart of charts) {
    chart.scale = Math.max(...charts.filter(other => other.device === chart.device).map(other => other.peak));
    chart.chart.redraw();
  }
}

function sideMemory(parent, side) {
  const before = side.profile?.memory.before ?? [];
  if (before.length) return before.map(({ device }) => profileMemory(parent, side, device));
  if (side.profile) {
    parent.append(h("p", { class: "muted" }, "Memory was not profiled over time: Profiler::profile_memory(true) does. "
      + "Below is what the plan that took longest needs."));
  }
  const plan = mainPlan(side);
  return plan ? peaks(plan).map(device => planMemory(parent, plan, side, device)) : [];
}
