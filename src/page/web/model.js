// What the page shows, and what of it is selected.

const DATA = JSON.parse(byId("data").textContent);

const ROLES = [
  ["forward", "forward", "forward"], ["gradient", "backward", "gradient"], ["optimizer", "optimizer", "optimizer"],
  ["copy", "copy", "copies only"], ["transfer", "transfer", "transfer"],
];
const KINDS = [
  ["parameter", "parameter"], ["optimizer", "optimizer state"], ["input", "input"], ["gradient", "gradient"],
  ["activation", "activation"], ["result", "result"], ["scratch", "scratch"], ["other", "other"], ["arena", "intermediates, not used"],
];
const roleColor = role => ROLES.find(([name]) => name === role)[1];
const kindName = kind => KINDS.find(([name]) => name === kind)[1];

/** Adds to each node what is looked up often. */
function prepare(side, number) {
  side.number = number;
  side.nodes = side.plans.flatMap((plan, at) => plan.nodes.map((node, index) =>
    Object.assign(node, { side, plan, index, id: `${number}-${at}-${index}`, measured: null, runs: [] })));
  if (side.profile) measure(side);
  for (const node of side.nodes) {
    const lines = [node.line, ...(node.lines ?? [])].map(line => side.lines[line].at);
    const inside = (node.operations ?? []).flatMap(one => [one.name, one.label]);
    node.moved = (node.kind === "transfer" ? node.bytes : node.loaded + node.stored) * node.launches;
    node.words = [node.name, node.label, node.device, ...inside, ...lines].join("\n").toLowerCase();
  }
  side.totals = side.profile ? profileTotals(side) : totals(side);
  return side;
}

/** Gives nodes their runs, and the mean time of a plan's run. */
function measure(side) {
  side.nodes.forEach(node => { node.runs = []; });
  side.runs = side.profile.kernels.map(([node, start, end, time, launched, launching, thread]) =>
    ({ node: side.nodes[node], start, end, time, launched, launching, thread }));
  side.runs.forEach(run => run.node.runs.push(run));
  for (const node of side.nodes) {
    const sum = node.runs.reduce((sum, run) => sum + run.time, 0);
    node.measured = node.runs.length ? sum / node.runs.length * node.launches : null;
    node.total = sum;
  }
}

/** What one launch was predicted to take. */
const predictedOnce = node => node.predicted === null ? null : node.predicted / node.launches;

function profileTotals(side) {
  const { profile, runs } = side;
  const sum = (list, of) => list.reduce((sum, one) => sum + (of(one) ?? 0), 0);
  const known = runs.some(run => run.node.predicted !== null);
  const measured = sum(runs, run => run.time), predicted = known ? sum(runs, run => predictedOnce(run.node)) : null;
  return {
    span: profile.span, busy: sum(profile.devices, device => device.busy), runs: runs.length, measured, predicted,
    ratio: predicted ? measured / predicted : null, transferred: sum(profile.transfers, transfer => transfer.bytes),
    flops: sum(runs, run => run.node.flops),
    moved: sum(runs, run => run.node.loaded + run.node.stored),
    peak: totals(side).peak,
  };
}

/** The plan that most of the time goes to; the largest where none ran. */
function mainPlan(side) {
  const weight = plan => plan.nodes.reduce((sum, node) => sum + (node.total ?? 0), 0);
  return [...side.plans].sort((a, b) => weight(b) - weight(a) || b.nodes.length - a.nodes.length)[0];
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

/** Sums: key, name, how they are written. */
const TOTALS = [
  ["span", "wall time", seconds], ["runs", "kernel runs", grouped], ["measured", "in kernels", seconds],
  ["kernels", "kernels", grouped], ["launches", "launches", grouped], ["loaded", "read", bytes], ["stored", "written", bytes],
  ["flops", "FLOP", count], ["transferred", "between devices", bytes], ["peak", "planned peak", bytes], ["moved", "moved", bytes],
  ["predicted", "predicted, at least", seconds], ["ratio", "measured / predicted", value => value === null ? "–" : times(value)],
];
