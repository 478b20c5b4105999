// The panel beside the views: all that is known of the selected node.

/** The user's line with those around it. */
function userSource({ at, line, first, source }) {
  if (!source.length) return h("p", { class: "mono" }, at);
  const width = String(first + source.length).length;
  const rows = source.map((text, row) => {
    const number = first + row;
    return [h("span", { class: number === line ? "here" : null }, `${String(number).padStart(width)}  ${text}`), number === line ? "" : "\n"];
  });
  return [h("p", { class: "mono muted" }, at), h("pre", { class: "users" }, rows)];
}

const factList = rows =>
  h("dl", {}, rows.filter(row => row && row[1] !== null && row[1] !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

const nodeLink = node => button(`${node.name} ${node.shape}`, () => tell("select", node), { class: "link" });

function timeRows(node) {
  const rows = [];
  if (node.measured !== null) {
    rows.push(["measured", `${seconds(node.measured)}, mean of ${grouped(node.runs.length)} runs`]);
  }
  if (node.predicted !== null) rows.push(["predicted", seconds(node.predicted) + (node.bound ? `, ${node.bound}` : "")]);
  if (node.measured !== null && node.predicted) rows.push(["measured / predicted", times(node.measured / node.predicted)]);
  return rows;
}

function readRows(node) {
  const { plan } = node;
  return node.reads.map(({ type, from, input }) => {
    const made = input === null ? null : plan.inputs[input];
    const what = made ? [made.parameter ? "parameter" : "input", made.name, shortLine(node.side.lines[made.line].at)] : [];
    return h("li", {}, h("code", {}, type), " ", from.map(index => [nodeLink(plan.nodes[index]), " "]),
      h("span", { class: "muted" }, what.filter(Boolean).join(" ")));
  });
}

/** The texts that there are of a kernel, one at a time. */
function texts(node) {
  const choices = [["Program", node.source], ["Kernel IR", node.ir], ["Graph IR", node.graph]];
  const pre = h("pre", { id: "text", tabindex: 0 });
  const buttons = choices.map(([name, number], index) => button(name, () => choose(index), { "data-text": number }));
  const choose = index => {
    buttons.forEach((other, at) => other.setAttribute("aria-pressed", at === index));
    pre.textContent = node.side.texts[choices[index][1]];
  };
  choose(0);
  return [h("div", { class: "choices" }, buttons), pre];
}

function operationRows(node) {
  return node.operations.map(one => h("li", {}, h("code", {}, one.name), " ",
    h("span", { class: "muted" }, [shortLine(node.side.lines[one.line].at), one.label].filter(Boolean).join(", "))));
}

function showDetail(node) {
  const readers = node.plan.edges.filter(([from]) => from === node.index).map(([, to]) => node.plan.nodes[to]);
  const isKernel = node.kind === "kernel";
  const more = changeRows(node);
  byId("detail").replaceChildren(
    h("h2", {}, swatch(roleColor(node.role)), `${node.name} ${node.shape}`),
    ...more,
    factList([
      ["what", ROLES.find(([name]) => name === node.role)[2]], ["device", node.device], ["label", node.label],
      node.launches > 1 && ["launches", grouped(node.launches)],
      isKernel ? ["reads", bytes(node.loaded)] : ["from", node.from],
      isKernel ? ["writes", bytes(node.stored)] : ["bytes", `${bytes(node.bytes)} (${grouped(node.bytes)})`],
      isKernel && ["computes", `${count(node.flops)} FLOP`],
      isKernel && node.loaded + node.stored > 0 && ["intensity", `${digits(node.flops / (node.loaded + node.stored))} FLOP/B`],
      ...timeRows(node),
    ]),
    h("h3", {}, "Your line"), ...[userSource(lineOf(node))].flat(),
    ...isKernel ? [h("h3", {}, "Operations inside"), h("ul", {}, operationRows(node))] : [],
    ...node.reads.length ? [h("h3", {}, "Reads"), h("ul", {}, readRows(node))] : [],
    ...readers.length ? [h("h3", {}, "Read by"), h("ul", {}, readers.map(reader => h("li", {}, nodeLink(reader))))] : [],
    ...isKernel ? [h("h3", {}, "Text"), ...texts(node)] : [],
  );
  byId("detail").scrollTop = 0;
}

/** Shows a block of memory: what made it, and what lies side by side in it. */
function showBlock(block, side, duration) {
  const parts = [...block.parts].sort((a, b) => b.bytes - a.bytes);
  const where = part => [part.label, part.line === null ? null : shortLine(side.lines[part.line].at)].filter(Boolean).join(", ");
  byId("detail").replaceChildren(
    h("h2", {}, swatch(block.kind), `${block.name} ${block.type}`),
    factList([["what", kindName(block.kind)], ["bytes", `${bytes(block.bytes)} (${grouped(block.bytes)})`], ["label", block.label],
      ["in memory", duration], ["written by", block.node ? nodeLink(block.node) : null]]),
    ...block.line === null ? [] : [h("h3", {}, "Your line"), ...[userSource(side.lines[block.line])].flat()],
    ...parts.length ? [h("h3", {}, `Inside, ${grouped(parts.length)} tensors`), h("ul", { id: "parts" }, parts.map(part =>
      h("li", {}, h("code", {}, part.type), ` ${bytes(part.bytes)} `, h("span", { class: "muted" }, [part.name, where(part)].filter(Boolean).join(", ")))))] : [],
  );
  byId("detail").scrollTop = 0;
}

/** What the panel says before anything is selected. */
function showHint() {
  byId("detail").replaceChildren(
    h("h2", {}, "Nothing selected"),
    h("p", { class: "muted" }, "Select a box, a block of memory or a row to see your line, the operations inside, what it costs, "
      + "and its program."),
    h("p", { class: "muted" }, "Wheel or + and − zoom, dragging or the arrow keys move, 0 shows everything, / searches."));
}
