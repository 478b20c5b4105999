// Two plans or profiles side by side: which kernels were added, removed or changed, and what that costs.

/** What pairs of nodes must have in common, the closest first. */
const PAIRINGS = [
  node => [node.name, node.shape, node.device, text(node, "ir")],
  node => [node.name, node.shape, lineOf(node).at],
  node => [node.name, node.shape],
  node => [node.name, lineOf(node).at],
  node => [node.shape, lineOf(node).at, node.role],
];

const text = (node, kind) => node[kind] === undefined ? "" : node.side.texts[node[kind]];
const timeOf = node => node === null ? null : node.measured ?? node.predicted;

/** Pairs of nodes, `[before, after]`; one of them is `null` for what was removed or added. */
function pairs(before, after) {
  const [left, right] = [new Set(before), new Set(after)], found = [];
  for (const of of PAIRINGS) {
    const waiting = Map.groupBy(left, node => of(node).join("\n"));
    for (const node of right) {
      const other = waiting.get(of(node).join("\n"))?.shift();
      if (!other) continue;
      left.delete(other);
      right.delete(node);
      found.push([other, node]);
    }
  }
  return [...found, ...[...left].map(node => [node, null]), ...[...right].map(node => [null, node])];
}

/** What is different between two nodes, as lines to read. */
function differences(a, b) {
  const found = [];
  const compare = (name, of, show = value => value) => {
    if (of(a) !== of(b)) found.push(`${name}: ${show(of(a))} → ${show(of(b))}`);
  };
  compare("name", node => node.name);
  compare("shape", node => node.shape);
  compare("device", node => node.device);
  compare("launches", node => node.launches, grouped);
  compare("moved", node => node.moved, bytes);
  compare("FLOP", node => node.flops ?? 0, count);
  if (text(a, "ir") !== text(b, "ir")) found.push("another kernel IR");
  else if (text(a, "source") !== text(b, "source")) found.push("another program for the same kernel");
  return found;
}

/** Every pair with what became of it: `same`, `added`, `removed`, or `changed` with the differences. */
function compareSides([before, after]) {
  const all = pairs(before.nodes, after.nodes).map(([a, b]) => {
    const lines = a && b ? differences(a, b) : [];
    const what = !a ? "added" : !b ? "removed" : lines.length ? "changed" : "same";
    const time = (timeOf(b) ?? 0) - (timeOf(a) ?? 0);
    return { before: a, after: b, what, lines, time };
  });
  const changes = new Map();
  all.forEach(change => [change.before, change.after].forEach(node => node && changes.set(node, change)));
  return { all, changes };
}

const COMPARED = SIDES.length > 1 ? compareSides(SIDES) : { all: [], changes: new Map() };

const changeName = what => h("b", { class: `${what}-text` }, what);

/** What the panel says of a node's counterpart. */
function changeRows(node) {
  const change = COMPARED.changes.get(node);
  if (!change) return [];
  const other = node === change.before ? change.after : change.before;
  return [h("p", {}, changeName(change.what), ...other ? [node === change.before ? ", now " : ", before ", nodeLink(other)] : []),
    h("ul", {}, change.lines.map(line => h("li", { class: "mono" }, line)))];
}

function totalsTable() {
  const [before, after] = SIDES.map(side => side.totals);
  const rows = TOTALS.filter(([key]) => after[key] !== undefined && before[key] !== undefined).map(([key, name, format]) => {
    const known = before[key] !== null && after[key] !== null;
    const difference = known ? signed(after[key] - before[key], format) : "–";
    const part = known && before[key] > 0 && after[key] !== before[key] ? signed(after[key] / before[key] - 1, percent) : "";
    return h("tr", { "data-compared": key }, h("td", { class: "text" }, name),
      [before[key], after[key]].map(value => h("td", {}, value === null ? "–" : format(value))), h("td", {}, difference), h("td", {}, part));
  });
  const heads = [["", "text"], ["before"], ["after"], ["difference"], [""]];
  return h("table", { id: "compared" }, h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { class: kind }, name)))), h("tbody", {}, rows));
}

function changesTable(rows, timed) {
  const two = (change, of, format) => {
    const [a, b] = [change.before ?? change.after, change.after ?? change.before].map(node => format(of(node) ?? 0));
    return a === b ? a : `${a} → ${b}`;
  };
  const heads = [["what", "text"], ["kernel", "text"], ["shape", "text"], ["moved"], ["FLOP"], [timed ? "measured" : "predicted"], ["difference"], ["line", "text"]];
  const row = change => {
    const node = change.after ?? change.before;
    const cells = [
      [changeName(change.what), "text"],
      [[swatch(roleColor(node.role)), two(change, one => one.name, name => name)], "text"], [two(change, one => one.shape, shape => shape), "text"],
      [two(change, one => one.moved, bytes)], [two(change, one => (one.flops ?? 0) * one.launches, count)], [two(change, timeOf, seconds)],
      [signed(change.time, seconds)], [shortLine(lineOf(node).at), "text"],
    ];
    return h("tr", {
      tabindex: 0, "data-node": node.id, "data-change": change.what, onclick: () => tell("select", node),
      onkeydown: event => { if (event.key === "Enter") tell("select", node); },
    }, cells.map(([value, kind]) => h("td", { class: kind }, value)));
  };
  return h("table", { id: "changes" }, h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { class: kind }, name)))), h("tbody", {}, rows.map(row)));
}

function changesView(parent) {
  parent.classList.add("table-view");
  const timed = SIDES.every(side => side.profile);
  const number = what => COMPARED.all.filter(change => change.what === what).length;
  const changed = COMPARED.all.filter(change => change.what !== "same").sort((a, b) => Math.abs(b.time) - Math.abs(a.time));
  const moved = COMPARED.all.filter(change => change.what === "same" && timed).sort((a, b) => Math.abs(b.time) - Math.abs(a.time)).slice(0, 20);
  const parts = ["added", "removed", "changed", "same"].map(what => [" ", changeName(what), ` ${grouped(number(what))} `]);
  parent.append(h("h3", {}, "Totals"), totalsTable(), h("h3", {}, "Kernels and transfers"), h("p", { id: "summary" }, parts),
    changed.length ? changesTable(changed, timed) : h("p", { class: "muted" }, "The kernels and transfers are the same."),
    ...moved.length ? [h("h3", {}, "Same kernels, other times: the largest differences"), changesTable(moved, timed)] : []);
  on("search", words => {
    parent.classList.toggle("searching", words.length > 0);
    parent.querySelectorAll("tr[data-node]").forEach(row => {
      const node = SIDES.flatMap(side => side.nodes).find(node => node.id === row.dataset.node);
      row.classList.toggle("match", matches(node, words));
    });
  });
}
