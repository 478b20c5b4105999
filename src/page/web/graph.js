// The graph: kernels and transfers as boxes, the user's operations inside.

class GraphView {
  constructor(parent, plan, changes) {
    this.plan = plan;
    this.boxes = new Map();
    this.paths = [];
    this.layer = s("g");
    this.svg = s("svg", { class: "graph", tabindex: 0, role: "group", "aria-label": "graph of kernels" }, this.layer);
    parent.append(this.svg);
    this.viewport = new Viewport(this.svg, this.layer, scale => this.svg.classList.toggle("far", scale < 0.4));
    layOut(plan.nodes, plan.edges);
    const most = Math.max(...plan.nodes.map(cost), 1e-30);
    this.layer.append(...this.loops(), ...plan.edges.map(edge => this.edge(edge)),
      ...plan.nodes.map(node => this.box(node, most, changes.get(node)?.what)));
    on("select", node => this.select(node));
    on("search", words => this.search(words));
  }

  /** Called when it can be seen first. */
  shown() {
    if (this.wasShown) return;
    this.wasShown = true;
    const first = this.plan.nodes.filter(node => node.y === 0);
    this.viewport.begin(first.reduce((sum, node) => sum + node.x + BOX.width / 2, 0) / first.length);
  }

  edge([from, to, size]) {
    const [a, b] = [this.plan.nodes[from], this.plan.nodes[to]];
    const [x1, y1, x2, y2] = [a.x + BOX.width / 2, a.y + a.height, b.x + BOX.width / 2, b.y];
    const bend = Math.max(20, Math.min(120, (y2 - y1) / 2));
    const long = b.depth - a.depth > 2;
    const path = s("path", {
      d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, class: long ? "long" : null,
      ...tipped(() => [`${a.name} → ${b.name}`, bytes(size)]),
    });
    this.paths.push({ path, from: a, to: b });
    return path;
  }

  box(node, most, change) {
    const line = (row, y, text, kind, x = 14) => s("text", { x, y: y + row * BOX.line, class: kind }, text);
    const ratio = node.measured !== null && node.predicted ? ` (${times(node.measured / node.predicted)})` : "";
    const time = node.measured !== null ? seconds(node.measured) + ratio : node.predicted === null ? null : seconds(node.predicted);
    const moved = node.kind === "transfer" ? `${node.from} → ${node.device}` : bytes(node.moved);
    const sub = [node.shape, node.launches > 1 ? `× ${grouped(node.launches)}` : null, moved, time].filter(Boolean).join(" · ");
    const inside = node.operations ?? [];
    const shown = inside.length > BOX.operations ? inside.slice(-BOX.operations) : inside;
    const rows = inside.length > shown.length ? [`… ${inside.length - shown.length} more before`] : [];
    rows.push(...shown.map(one => cut(one.name, 19)));
    const lines = shown.map(one => cutStart(shortLine(node.side.lines[one.line].at), 17));
    const firstLine = rows.length - shown.length;
    const label = cutStart(node.label, 14);
    const share = Math.max(2, (BOX.width - 8) * cost(node) / most);
    const box = s("g", {
      class: ["box", change].filter(Boolean).join(" "), transform: `translate(${node.x} ${node.y})`, tabindex: 0, role: "button",
      "data-node": node.id, "data-kind": node.kind, style: `--role: var(--${roleColor(node.role)})`,
      "aria-label": `${node.kind} ${node.name} ${node.shape}`,
      onclick: () => tell("select", node), ...tipped(() => nodeTip(node)),
      onkeydown: event => { if (event.key === "Enter") tell("select", node); },
      onmouseenter: () => this.near(node), onfocus: () => this.near(node),
    },
      s("rect", { class: "back", width: BOX.width, height: node.height, rx: 6 }),
      s("rect", { class: "stripe", width: 5, height: node.height, rx: 2.5 }),
      s("rect", { class: "share", x: 5, y: node.height - 4, width: share, height: 4 }),
      line(0, 19, cut(node.name, label ? 31 - label.length : 32), "name"),
      label ? line(0, 19, label, "muted end", BOX.width - 10) : null, line(1, 19, cut(sub, 44), "muted sub"),
      ...rows.map((text, row) => line(row + 2, 22, text, "op")),
      ...lines.map((text, row) => line(row + firstLine + 2, 22, text, "op muted end", BOX.width - 10)));
    this.boxes.set(node, box);
    return box;
  }

  /** A frame around the kernels of each loop. */
  loops() {
    const groups = Map.groupBy(this.plan.nodes.filter(node => node.group !== null), node => node.group);
    return [...groups.values()].map(nodes => {
      const [left, top] = [Math.min(...nodes.map(node => node.x)), Math.min(...nodes.map(node => node.y))];
      const right = Math.max(...nodes.map(node => node.x + BOX.width));
      const bottom = Math.max(...nodes.map(node => node.y + node.height));
      const frame = s("rect", { class: "loop", x: left - 10, y: top - 24, width: right - left + 20, height: bottom - top + 34, rx: 8 });
      return s("g", {}, frame, s("text", { class: "muted", x: left, y: top - 9 }, "loop"));
    });
  }

  near(node) {
    for (const { path, from, to } of this.paths) path.classList.toggle("near", from === node || to === node);
  }

  select(node) {
    this.boxes.forEach((box, of) => box.classList.toggle("selected", of === node));
    if (!this.boxes.has(node)) return;
    this.near(node);
    if (this.wasShown) this.viewport.reveal(node.x + BOX.width / 2, node.y + node.height / 2);
  }

  search(words) {
    this.svg.classList.toggle("searching", words.length > 0);
    let first = null;
    this.boxes.forEach((box, node) => {
      const found = words.length > 0 && matches(node, words);
      box.classList.toggle("match", found);
      first ??= found ? node : null;
    });
    if (first && this.wasShown) this.viewport.reveal(first.x + BOX.width / 2, first.y + first.height / 2);
  }
}

const cost = node => node.measured ?? node.predicted ?? node.moved;
