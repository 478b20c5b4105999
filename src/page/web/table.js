// The kernels and transfers as rows.

const COLUMNS = [
  { name: "#", of: node => node.index, show: value => grouped(value) },
  { name: "kernel", text: true, of: node => node.name, show: (value, node) => [swatch(roleColor(node.role)), value] },
  { name: "shape", text: true, of: node => node.shape },
  { name: "launches", varies: true, of: node => node.launches, show: grouped },
  { name: "moved", of: node => node.moved, show: bytes },
  { name: "FLOP", of: node => (node.flops ?? 0) * node.launches, show: count },
  { name: "measured", of: node => node.measured, show: seconds, timed: true },
  { name: "predicted", of: node => node.predicted, show: seconds },
  { name: "ratio", of: node => node.measured === null || !node.predicted ? null : node.measured / node.predicted, show: value => value === null ? "–" : times(value), timed: true },
  { name: "bound by", text: true, of: node => node.bound ?? "", show: value => value.replace("-bound", "") },
  { name: "device", text: true, varies: true, of: node => node.device },
  { name: "label", text: true, of: node => node.label },
  { name: "line", text: true, of: node => lineOf(node).at, show: shortLine },
];

function tableView(parent) {
  parent.classList.add("table-view");
  const timed = NOW.profile !== null;
  const columns = COLUMNS.filter(column => timed || !column.timed)
    .filter(column => !column.varies || new Set(NOW.nodes.map(column.of)).size > 1)
    .filter(column => !column.text || NOW.nodes.some(node => column.of(node) !== ""));
  let sorted = { column: columns[0], down: false };
  const body = h("tbody");
  const sortBy = column => {
    sorted = { column, down: sorted.column === column ? !sorted.down : !column.text && column !== columns[0] };
    order();
  };
  const rows = new Map(NOW.nodes.map(node => [node, h("tr", {
    tabindex: 0, "data-node": node.id, onclick: () => tell("select", node),
    onkeydown: event => { if (event.key === "Enter") tell("select", node); },
  }, columns.map(column => h("td", { class: column.text ? "text" : null }, (column.show ?? (value => value))(column.of(node), node))))]));
  const heads = columns.map(column => h("th", { class: column.text ? "text" : null }, button(column.name, () => sortBy(column))));
  function order() {
    const { column, down } = sorted;
    const value = node => column.of(node) ?? -1;
    const nodes = [...NOW.nodes].sort((a, b) => (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0) * (down ? -1 : 1));
    body.replaceChildren(...nodes.map(node => rows.get(node)));
    heads.forEach((head, at) => head.setAttribute("aria-sort", columns[at] !== column ? "none" : down ? "descending" : "ascending"));
  }
  order();
  parent.append(h("table", {}, h("thead", {}, h("tr", {}, heads)), body));
  on("select", node => rows.forEach((row, of) => row.classList.toggle("selected", of === node)));
  on("search", words => {
    parent.classList.toggle("searching", words.length > 0);
    rows.forEach((row, node) => row.classList.toggle("match", matches(node, words)));
  });
}
