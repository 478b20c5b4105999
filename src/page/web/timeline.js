// What devices and threads did, over time; beside kernels, how long they were predicted to take.

const ROW = { height: 20, gap: 3, group: 12, left: 170 };

const ACTIVITY_COLORS = { step: "input", region: "optimizer", wait: "removed", transfer: "transfer" };

/** Colors that the text of the page can be read on. */
const PLAIN = ["scratch", "input"];

/** Rows of things that do not overlap: each thing goes to the first row that is free. */
function lanes(items) {
  const rows = [];
  for (const item of [...items].sort((a, b) => a.start - b.start || b.end - a.end)) {
    const row = rows.find(row => row[row.length - 1].end <= item.start);
    if (row) row.push(item);
    else rows.push([item]);
  }
  return rows;
}

/** The tracks: kernels of each device, what was predicted of them, transfers, threads. */
function tracks(side) {
  const { profile } = side, found = [];
  const add = (name, items) => lanes(items).forEach((row, at) => found.push({ name: at ? "" : name, items: row, first: at === 0 }));
  for (const { device } of profile.devices) {
    const runs = side.runs.filter(run => run.node.device === device);
    const item = run => ({
      start: run.start, end: run.end, name: run.node.name, color: roleColor(run.node.role), node: run.node,
      tip: [`${run.node.name} ${run.node.shape}`, `measured ${seconds(run.time)}`, run.node.predicted === null ? null
        : `predicted ${seconds(predictedOnce(run.node))}: ${times(run.time / predictedOnce(run.node))} as long`,
      run.node.label && `label: ${run.node.label}`, lineOf(run.node).at],
    });
    add(`${device}: kernels`, runs.map(item));
    const known = runs.filter(run => run.node.predicted !== null);
    add(`${device}: predicted`, known.map(run => ({ ...item(run), end: run.start + predictedOnce(run.node), faint: true })));
  }
  add("transfers", profile.transfers.map(one => ({
    ...one, name: bytes(one.bytes), color: "transfer",
    tip: [`${one.from} → ${one.to}`, bytes(one.bytes), `took ${seconds(one.end - one.start)}`,
      one.predicted === null ? null : `predicted ${seconds(one.predicted)}`, one.line === null ? null : side.lines[one.line].at],
  })));
  for (const thread of Object.keys(profile.threads)) {
    const events = profile.host.filter(event => String(event.thread) === thread);
    add(`host: ${profile.threads[thread]}`, events.map(event => ({
      ...event, name: event.name || event.activity, color: ACTIVITY_COLORS[event.activity] ?? "scratch",
      tip: [event.name || event.activity, event.activity, `took ${seconds(event.end - event.start)}`, event.label && `label: ${event.label}`,
        event.line === null ? null : side.lines[event.line].at],
    })));
  }
  return found;
}

/** The timeline of a profile; of two, both have one scale. */
class Timeline {
  constructor(parent, side) {
    this.side = side;
    let y = 18;
    this.tracks = tracks(side).map(track => {
      y += track.first ? ROW.group : ROW.gap;
      const placed = { ...track, y };
      y += ROW.height;
      return placed;
    });
    this.chart = new Chart(parent, {
      height: y + 56, end: Math.max(...SIDES.map(side => side.profile?.span ?? 0)), nameX: "time", formatX: seconds, left: ROW.left, draw: chart => this.draw(chart),
    });
    on("search", words => { this.words = words; this.chart.redraw(); });
    on("select", node => { this.selected = node; this.chart.redraw(); });
  }

  draw(chart) {
    chart.svg.classList.toggle("searching", this.words?.length > 0);
    const names = this.tracks.map(({ name, y }) => s("text", { x: ROW.left - 10, y: y + 14, "text-anchor": "end" }, cut(name, 24)));
    const back = this.tracks.map(({ y }) => s("rect", { class: "track", x: ROW.left, width: chart.width, y, height: ROW.height }));
    return [chart.axes(), back, names, chart.clipped(this.tracks.map(track => this.row(chart, track)))];
  }

  /** The things of a track that can be seen; of those too small to see apart, one. */
  row(chart, { items, y }) {
    const drawn = [];
    let right = -1;
    for (const item of items) {
      if (item.end < chart.from || item.start > chart.to) continue;
      const x = Math.max(chart.x(item.start), ROW.left - 4), end = Math.min(chart.x(item.end), ROW.left + chart.width + 4);
      if (end - right < 0.7) continue;
      right = end;
      drawn.push(this.item(item, x, y, Math.max(0.7, end - x)));
    }
    return drawn;
  }

  item(item, x, y, width) {
    const found = this.words?.length && item.node && matches(item.node, this.words);
    const state = ["item", found ? "match" : null, item.node && item.node === this.selected ? "selected" : null];
    const room = Math.floor((width - 8) / 6.6);
    return s("g", { class: state.filter(Boolean).join(" "), onclick: () => item.node && tell("select", item.node), ...tipped(() => item.tip) },
      s("rect", { x, y, width, height: ROW.height, fill: `var(--${item.color})`, opacity: item.faint ? 0.55 : 1, rx: width > 6 ? 2 : 0 }),
      room > 3 ? s("text", { class: PLAIN.includes(item.color) || item.faint ? "inside plain" : "inside", x: x + 4, y: y + 14 }, cut(item.name, room)) : null);
  }
}

function timelineView(parent, tools) {
  parent.classList.add("chart-view");
  const charts = SIDES.filter(side => side.profile).map((side, number) => {
    if (SIDES.length > 1) parent.append(h("h2", {}, number ? "After" : "Before"));
    parent.append(h("p", { class: "muted note" }, side.profile.devices.map(device => `${device.device}: ${device.name}, busy ${seconds(device.busy)} of `
      + `${seconds(side.profile.span)}${device.peak ? `; at most ${device.peak}` : ""}`).join(" · ")));
    return new Timeline(parent, side).chart;
  });
  const each = act => () => charts.forEach(act);
  tools.append(button("Fit", each(chart => chart.move(0, chart.end))), button("+", each(chart => chart.zoom(0.8)), { "aria-label": "zoom in" }),
    button("−", each(chart => chart.zoom(1.25)), { "aria-label": "zoom out" }),
    legend([["forward", "forward"], ["backward", "gradient"], ["optimizer", "optimizer, label"], ["transfer", "transfer"], ["removed", "wait"], ["scratch", "other work of the host"]]));
}
