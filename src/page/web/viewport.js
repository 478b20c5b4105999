// Zooming and panning a drawing.

class Viewport {
  /** Moves and scales `layer` within `svg`; `changed` hears of the scale. */
  constructor(svg, layer, changed) {
    Object.assign(this, { svg, layer, changed, x: 0, y: 0, scale: 1 });
    svg.addEventListener("wheel", event => this.wheel(event), { passive: false });
    svg.addEventListener("pointerdown", event => this.grab(event));
    svg.addEventListener("keydown", event => this.key(event));
  }

  apply() {
    this.layer.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    this.changed(this.scale);
  }

  wheel(event) {
    event.preventDefault();
    const { left, top } = this.svg.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - left, event.clientY - top);
  }

  /** Scales about a point, by default the middle. */
  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.02, this.scale * factor));
    this.x = x - (x - this.x) * scale / this.scale;
    this.y = y - (y - this.y) * scale / this.scale;
    this.scale = scale;
    this.apply();
  }

  grab(event) {
    if (event.button !== 0) return;
    const start = { x: event.clientX - this.x, y: event.clientY - this.y };
    const move = event => {
      this.x = event.clientX - start.x;
      this.y = event.clientY - start.y;
      this.apply();
    };
    const drop = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", drop);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", drop);
  }

  key(event) {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (moves[event.key]) {
      this.x += moves[event.key][0];
      this.y += moves[event.key][1];
      this.apply();
    } else return;
    event.preventDefault();
  }

  /** Shows all of the drawing. */
  fit() {
    const box = this.layer.getBBox(), margin = 24;
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width || !box.width) return;
    this.scale = Math.min(1.2, (width - 2 * margin) / box.width, (height - 2 * margin) / box.height);
    this.x = (width - box.width * this.scale) / 2 - box.x * this.scale;
    this.y = margin - box.y * this.scale;
    this.apply();
  }

  /** Shows the top of the drawing, around `middle`, at a size to read. */
  begin(middle) {
    this.fit();
    const box = this.layer.getBBox();
    if (!box.width || this.scale >= 0.9) return;
    this.scale = Math.min(1, Math.max(0.95, (this.svg.clientWidth - 48) / box.width));
    this.x = this.svg.clientWidth / 2 - middle * this.scale;
    this.y = 24 - box.y * this.scale;
    this.apply();
  }

  /** Brings a point of the drawing to the middle, unless it is well inside already. */
  reveal(x, y) {
    const [atX, atY] = [this.x + x * this.scale, this.y + y * this.scale];
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (atX > 0 && atX < width && atY > 0 && atY < height) return;
    this.x = width / 2 - x * this.scale;
    this.y = height / 2 - y * this.scale;
    this.apply();
  }
}
