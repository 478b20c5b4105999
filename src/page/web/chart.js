// Drawings with axes, which can be zoomed into along `x`.

/** `draw` gives the elements; bytes upwards where `top` is set; `end` is where `x` ends. */
class Chart {
  constructor(parent, { height, end, nameX, nameY = "", formatX, draw, left = 78 }) {
    Object.assign(this, { height, end, nameX, nameY, formatX, draw, from: 0, to: end, margin: { left, right: 20, top: 18, bottom: 42 } });
    this.svg = s("svg", { class: "chart", height, tabindex: 0, role: "img", "aria-label": `${nameY} over ${nameX}` });
    parent.append(this.svg);
    this.svg.addEventListener("wheel", event => this.wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", event => this.grab(event));
    this.svg.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(this.svg);
    // The observer is told a frame later.
    this.redraw();
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
    const columns = ticks(this.from, this.to, Math.max(2, this.width / 90)).map(value =>
      s("text", { x: this.x(value), y: base + 18, "text-anchor": "middle" }, this.formatX(value)));
    return s("g", { class: "axis" }, rows, columns, s("line", { x1: left, x2: edge, y1: base, y2: base }),
      s("text", { class: "axis-name", x: (left + edge) / 2, y: this.height - 6, "text-anchor": "middle" }, this.nameX),
      s("text", { class: "axis-name", x: left, y: top - 6, "text-anchor": "end" }, this.nameY));
  }

  redraw() {
    if (this.width > 0) this.svg.replaceChildren(...this.draw(this).flat(Infinity));
  }

  /** A part of the drawing that stays between the axes. */
  clipped(children) {
    const { left, top } = this.margin, id = `clip-${Chart.clips = (Chart.clips ?? 0) + 1}`;
    const rect = s("rect", { x: left, y: top, width: this.width, height: this.height - this.margin.bottom - top });
    return s("g", {}, s("clipPath", { id }, rect), s("g", { "clip-path": `url(#${id})` }, children));
  }
}
