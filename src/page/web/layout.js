// A layered drawing: each node below what it reads (after Sugiyama, Tagawa and Toda, 1981).

const BOX = { width: 268, gapX: 26, gapY: 44, line: 16, operations: 6 };

const boxHeight = node => {
  const inside = node.operations?.length ?? 0;
  return 52 + BOX.line * Math.min(inside, BOX.operations + 1);
};

/** Gives every node `x`, `y`, `height` and `depth`. */
function layOut(nodes, edges) {
  const above = nodes.map(() => []), below = nodes.map(() => []);
  for (const [from, to] of edges) {
    above[to].push(from);
    below[from].push(to);
  }
  const layers = layersOf(nodes, above, below);
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    const order = down ? layers : [...layers].reverse();
    order.forEach(layer => arrange(layer, nodes, down ? above : below));
  }
  let y = 0;
  for (const layer of layers) {
    layer.forEach(index => { nodes[index].y = y; });
    y += Math.max(...layer.map(index => nodes[index].height)) + BOX.gapY;
  }
}

/** Nodes are in an order in which each comes after what it reads. What reads little is just above its readers. */
function layersOf(nodes, above, below) {
  const layers = [];
  nodes.forEach((node, index) => {
    node.height = boxHeight(node);
    node.depth = Math.max(-1, ...above[index].map(from => nodes[from].depth)) + 1;
  });
  for (let index = nodes.length - 1; index >= 0; index--) {
    if (below[index].length === 0 || above[index].length > below[index].length) continue;
    nodes[index].depth = Math.min(...below[index].map(to => nodes[to].depth)) - 1;
  }
  nodes.forEach((node, index) => {
    (layers[node.depth] ??= []).push(index);
    node.x = (layers[node.depth].length - 1) * (BOX.width + BOX.gapX);
  });
  return layers.filter(layer => layer);
}

/** Puts the nodes of a layer where their neighbours are, side by side. */
function arrange(layer, nodes, neighbours) {
  const wanted = new Map(layer.map(index => {
    const near = neighbours[index].filter(other => Math.abs(nodes[other].depth - nodes[index].depth) <= 3);
    const mean = near.reduce((sum, other) => sum + nodes[other].x, 0) / near.length;
    return [index, near.length ? mean : nodes[index].x];
  }));
  layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
  const width = BOX.width + BOX.gapX;
  let right = -Infinity;
  for (const index of layer) {
    nodes[index].x = Math.max(wanted.get(index), right);
    right = nodes[index].x + width;
  }
  const shift = layer.reduce((sum, index) => sum + nodes[index].x - wanted.get(index), 0) / layer.length;
  layer.forEach(index => { nodes[index].x -= shift; });
}
