// Memory over the steps of a plan: who is where, from when to when.

/** A drawing with axes: bytes upwards, `x` to the right, which can be zoomed into. */
class Chart {
  constructor(parent, { height, end, nameX, nameY, formatX, draw }) {
    Object.assign(this, { height, end, nameX, nameY, formatX, draw, from: 0, to: end, margin: { left: 78, right: 16, top: 18, bottom: 42 } });
    this.svg = s("svg", { class: "chart", height, tabindex: 0, role: "img", "aria-label": `${nameY} over ${nameX}` });
    parent.append(this.svg);
    this.svg.addEventListener("wheel", event => this.wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", event => this.grab(event));
    this.svg.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(this.svg);
  }

  get width() { return this.svg.clientWidth - this.margin.left - this.margin.right; }
  x(at) { return this.margin.left + (at - this.from) / (this.to - this.from) * this.width; }
  at(clientX) {
    const x = clientX - this.svg.getBoundingClientRect().left - this.margin.left;
    return this.from + x / this.width * (this.to - this.from);
  }
  y(bytes) { return this.height - this.margin.bottom - bytes / this.top * (this.height - this.margin.top - this.margin.bottom); }

  wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(event.deltaY * 0.0015), this.at(event.clientX));
  }
  zoom(factor, about = (this.from + this.to) / 2) {
    const span = Math.min(this.end, Math.max(this.end / 1e6, (this.to - this.from) * factor));
    const part = (about - this.from) / (this.to - this.from);
    this.move(about - span * part, span);
  }
  move(from, span = this.to - this.from) {
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.redraw();
  }
  grab(event) {
    const start = { x: event.clientX, from: this.from };
    const move = event => this.move(start.from - (event.clientX - start.x) / this.width * (this.to - this.from));
    const drop = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", drop); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", drop);
  }
  key(event) {
    const span = this.to - this.from;
    if (event.key === "+") this.zoom(0.8);
    else if (event.key === "-") this.zoom(1.25);
    else if (event.key === "0") this.move(0, this.end);
    else if (event.key === "ArrowLeft") this.move(this.from - span / 10);
    else if (event.key === "ArrowRight") this.move(this.from + span / 10);
    else return;
    event.preventDefault();
  }

  axes() {
    const { left, right, top, bottom } = this.margin, base = this.height - bottom, edge = this.svg.clientWidth - right;
    const rows = this.top ? ticks(0, this.top, 6, 2).map(value => [
      s("line", { class: "grid", x1: left, x2: edge, y1: this.y(value), y2: this.y(value) }),
      s("text", { x: left - 8, y: this.y(value) + 4, "text-anchor": "end" }, bytes(value)),
    ]) : [];
    const columns = ticks(this.from, this.to, Math.max(2, this.width / 110)).map(value =>
      s("text", { x: this.x(value), y: base + 18, "text-anchor": "middle" }, this.formatX(value)));
    return s("g", { class: "axis" }, rows, columns, s("line", { x1: left, x2: edge, y1: base, y2: base }),
      s("text", { class: "axis-name", x: (left + edge) / 2, y: this.height - 6, "text-anchor": "middle" }, this.nameX),
      s("text", { class: "axis-name", x: left, y: top - 6, "text-anchor": "end" }, this.nameY));
  }

  redraw() {
    if (this.width > 0) this.svg.replaceChildren(...this.draw(this));
  }

  /** A part of the drawing that stays between the axes. */
  clipped(children) {
    const { left, top } = this.margin, id = `clip-${Chart.clips = (Chart.clips ?? 0) + 1}`;
    const rect = s("rect", { x: left, y: top, width: this.width, height: this.height - this.margin.bottom - top });
    return s("g", {}, s("clipPath", { id }, rect), s("g", { "clip-path": `url(#${id})` }, children));
  }
}

/** The memory of a plan on one device. */
class PlanMemory {
  constructor(parent, plan, side, { device, blocks, peak, arena }) {
    Object.assign(this, { plan, side, device, peak, arena, cursor: null });
    this.blocks = place(blocks);
    const steps = Math.max(1, plan.steps.length);
    this.cursor = busiest(this.blocks, steps);
    const used = KINDS.filter(([kind]) => blocks.some(block => block.kind === kind));
    this.note = h("p", {});
    this.list = h("div", {});
    parent.append(h("h2", {}, `Memory of ${device}`), this.note, legend(used));
    this.chart = new Chart(parent, {
      height: 380, end: steps, nameX: "step of the plan", nameY: "bytes", formatX: at => Number.isInteger(at) ? grouped(at) : "",
      draw: chart => this.draw(chart),
    });
    this.chart.svg.addEventListener("click", event => this.point(Math.floor(this.chart.at(event.clientX))));
    parent.append(this.list);
    this.point(this.cursor);
    on("search", words => { this.words = words; this.chart.redraw(); });
  }

  draw(chart) {
    chart.top = Math.max(this.peak, 1) * 1.04;
    const rects = this.blocks.filter(block => block.last + 1 >= chart.from && block.first <= chart.to).map(block => this.rect(chart, block));
    const peak = s("line", { class: "peak", x1: chart.margin.left, x2: chart.margin.left + chart.width, y1: chart.y(this.peak), y2: chart.y(this.peak),
      ...tipped(() => ["planned peak", bytes(this.peak)]) });
    const x = chart.x(this.cursor + 0.5);
    const cursor = s("line", { class: "cursor", x1: x, x2: x, y1: chart.margin.top, y2: chart.height - chart.margin.bottom });
    return [chart.axes(), chart.clipped([...rects, cursor, peak])];
  }

  rect(chart, block) {
    const [x, right] = [chart.x(block.first), chart.x(block.last + 1)];
    const height = Math.max(0.5, chart.y(0) - chart.y(block.bytes));
    const found = this.words?.length && this.words.every(word => blockWords(block, this.side).includes(word));
    return s("rect", {
      class: found ? "block match" : "block", x, width: Math.max(1, right - x), y: chart.y(block.y + block.bytes), height,
      fill: `var(--${block.kind})`, opacity: this.words?.length && !found ? 0.2 : 1,
      "data-block": block.name, onclick: () => this.maker(block), ...tipped(() => this.tip(block)),
    });
  }

  /** Selects the kernel that writes a block. */
  maker(block) {
    const node = block.whole ? undefined : this.plan.nodes[this.plan.steps[block.first]];
    if (node) tell("select", node);
  }

  tip(block) {
    return [`${block.name} ${block.type}`, `${kindName(block.kind)}, ${bytes(block.bytes)}`, block.label && `label: ${block.label}`,
      block.whole ? "the whole plan" : `steps ${grouped(block.first)} to ${grouped(block.last)} of ${grouped(this.plan.steps.length)}`,
      block.line === null ? null : this.side.lines[block.line].at];
  }

  /** Lists what is in memory at a step. */
  point(step) {
    this.cursor = Math.min(Math.max(0, step), Math.max(0, this.plan.steps.length - 1));
    const alive = this.blocks.filter(block => block.first <= this.cursor && block.last >= this.cursor);
    const sum = alive.reduce((sum, block) => sum + block.bytes, 0);
    const node = this.plan.nodes[this.plan.steps[this.cursor]];
    const most = busiest(this.blocks, this.plan.steps.length) === this.cursor ? ", the most of any step" : "";
    this.note.replaceChildren(`Planned peak ${bytes(this.peak)} (dashed). At step ${grouped(this.cursor)}${node ? ` (${node.name})` : ""}: `
      + `${bytes(sum)} in ${grouped(alive.length)} blocks${most}. Select a step in the chart for another.`);
    this.list.replaceChildren(blockTable(groupBlocks(alive), sum, this.side));
    this.chart?.redraw();
  }
}

const blockWords = (block, side) =>
  [block.name, kindName(block.kind), block.label, block.line === null ? "" : side.lines[block.line].at].join("\n").toLowerCase();

/** Puts what stays at the bottom, and intermediates above where the planner put them. */
function place(blocks) {
  const order = KINDS.map(([kind]) => kind);
  const whole = blocks.filter(block => block.offset === null)
    .sort((a, b) => a.first - b.first || order.indexOf(a.kind) - order.indexOf(b.kind) || b.bytes - a.bytes);
  let y = 0;
  for (const block of whole) {
    block.y = y;
    block.whole = block.first === 0 && block.kind !== "activation";
    y += block.bytes;
  }
  const inside = blocks.filter(block => block.offset !== null);
  inside.forEach(block => { block.y = y + block.offset; });
  return [...whole, ...inside];
}

/** The step at which most is in memory. */
function busiest(blocks, steps) {
  const change = new Array(steps + 1).fill(0);
  for (const block of blocks) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  let best = 0, now = 0, most = -1;
  change.slice(0, steps).forEach((bytes, step) => {
    now += bytes;
    if (now > most) [best, most] = [step, now];
  });
  return best;
}

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
  SIDES.forEach((side, number) => {
    if (SIDES.length > 1) parent.append(h("h2", {}, number ? "After" : "Before"));
    side.plans.forEach(plan => peaks(plan).forEach(device => new PlanMemory(parent, plan, side, device)));
  });
}
