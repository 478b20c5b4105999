// What the page shows, and what of it is selected.

const DATA = JSON.parse(byId("data").textContent);

const ROLES = [
  ["forward", "forward", "forward"], ["gradient", "backward", "gradient"], ["optimizer", "optimizer", "optimizer"],
  ["copy", "copy", "copies only"], ["transfer", "transfer", "transfer"],
];
const KINDS = [
  ["parameter", "parameter"], ["optimizer", "optimizer state"], ["gradient", "gradient"], ["activation", "activation"],
  ["result", "result"], ["input", "input"], ["scratch", "scratch"],
];
const roleColor = role => ROLES.find(([name]) => name === role)[1];
const kindName = kind => KINDS.find(([name]) => name === kind)[1];

/** Adds to each node what is looked up often. */
function prepare(side, number) {
  side.number = number;
  side.nodes = side.plans.flatMap((plan, at) => plan.nodes.map((node, index) =>
    Object.assign(node, { side, plan, index, id: `${number}-${at}-${index}` })));
  for (const node of side.nodes) {
    const lines = [node.line, ...(node.lines ?? [])].map(line => side.lines[line].at);
    const inside = (node.operations ?? []).flatMap(one => [one.name, one.label]);
    node.moved = (node.kind === "transfer" ? node.bytes : node.loaded + node.stored) * node.launches;
    node.words = [node.name, node.label, node.device, ...inside, ...lines].join("\n").toLowerCase();
    node.measured = null;
    node.runs = [];
  }
  side.totals = totals(side);
  return side;
}

function totals(side) {
  const sum = of => side.nodes.reduce((sum, node) => sum + (of(node) ?? 0), 0);
  const kernels = side.nodes.filter(node => node.kind === "kernel");
  const known = side.nodes.some(node => node.predicted !== null);
  return {
    kernels: kernels.length,
    launches: kernels.reduce((sum, node) => sum + node.launches, 0),
    loaded: sum(node => node.loaded * node.launches || 0),
    stored: sum(node => node.stored * node.launches || 0),
    flops: sum(node => node.flops * node.launches || 0),
    transferred: sum(node => node.kind === "transfer" ? node.bytes * node.launches : 0),
    peak: Math.max(0, ...side.plans.map(plan => peaks(plan).reduce((sum, one) => sum + one.peak, 0))),
    predicted: known ? sum(node => node.predicted) : null,
  };
}

/** What a plan needs on each device: as the planner takes it, the memory of intermediates as a whole. */
function peaks(plan) {
  const devices = [...new Set([...plan.blocks, ...plan.arenas].map(one => one.device))];
  return devices.map(device => {
    const own = plan.blocks.filter(block => block.device === device);
    const sum = blocks => blocks.reduce((sum, block) => sum + block.bytes, 0);
    const arena = plan.arenas.filter(one => one.device === device);
    const whole = own.filter(block => block.offset === null);
    return { device, peak: sum(whole) + sum(arena), arena: sum(arena), whole: sum(whole), blocks: own };
  });
}

const SIDES = DATA.sides.map(prepare);
/** The side that is looked at; what it is compared to comes first. */
const NOW = SIDES[SIDES.length - 1];

const lineOf = node => node.side.lines[node.line];

/** What a box and its tooltip say of a node. */
function facts(node) {
  const moved = node.kind === "transfer" ? [bytes(node.bytes), `${node.from} → ${node.device}`]
    : [`${bytes(node.loaded)} read`, `${bytes(node.stored)} written`, `${count(node.flops)} FLOP`];
  const repeated = node.launches > 1 ? `${grouped(node.launches)} launches` : null;
  const predicted = node.predicted === null ? null : `predicted ${seconds(node.predicted)}`;
  const measured = node.measured === null ? null : `measured ${seconds(node.measured)}`;
  return { moved, repeated, predicted, measured };
}

function nodeTip(node) {
  const { moved, repeated, predicted, measured } = facts(node);
  const bound = node.bound ? `, ${node.bound}` : "";
  const inside = (node.operations ?? []).map(one => one.name).join(" ");
  return [`${node.name} ${node.shape}`, [...moved, repeated].filter(Boolean).join(", "),
    [measured, predicted && predicted + bound].filter(Boolean).join(", "), inside && `inside: ${cut(inside, 160)}`,
    node.label && `label: ${node.label}`, lineOf(node).at];
}

/** Who hears of a selected node, and of what is searched for. */
const listeners = { select: [], search: [] };
const on = (event, listener) => listeners[event].push(listener);
const tell = (event, what) => listeners[event].forEach(listener => listener(what));
const matches = (node, words) => words.every(word => node.words.includes(word));
