// Puts the page together.

const TOTALS = [
  ["kernels", "kernels", grouped], ["launches", "launches", grouped], ["loaded", "read", bytes], ["stored", "written", bytes],
  ["flops", "FLOP", count], ["transferred", "between devices", bytes], ["peak", "planned peak", bytes], ["predicted", "predicted, at least", seconds],
];

function showTotals() {
  byId("totals").append(...TOTALS.filter(([key]) => NOW.totals[key] !== undefined).map(([key, name, format]) => {
    const [value, before] = [NOW.totals[key], SIDES.length > 1 ? SIDES[0].totals[key] : null];
    const was = before === null || before === value ? null : h("small", {}, ` was ${format(before)}`);
    return h("div", { class: "total", "data-total": key, "data-value": value }, h("b", {}, format(value), was), h("span", {}, name));
  }));
}

function graphView(parent, tools) {
  const panes = h("div", { class: "panes" });
  parent.append(panes);
  const views = SIDES.flatMap((side, number) => side.plans.map((plan, at) => {
    const pane = h("div", { class: "pane" });
    if (SIDES.length > 1 || side.plans.length > 1) {
      pane.append(h("h4", {}, SIDES.length > 1 ? (number ? "After" : "Before") : `Plan ${at + 1}`));
    }
    panes.append(pane);
    return new GraphView(pane, plan);
  }));
  const each = act => () => views.forEach(view => act(view.viewport));
  const used = ROLES.filter(([role]) => SIDES.some(side => side.nodes.some(node => node.role === role)));
  tools.append(button("Fit", each(port => port.fit()), { id: "fit" }), button("+", each(port => port.zoom(1.25)), { "aria-label": "zoom in" }),
    button("−", each(port => port.zoom(0.8)), { "aria-label": "zoom out" }), legend(used.map(([, color, name]) => [color, name])));
  return () => views.forEach(view => view.shown());
}

const VIEWS = [["Graph", graphView], ["Memory", memoryView], ["Kernels", tableView]];

function showTabs() {
  const tabs = VIEWS.map(([name, build]) => {
    const view = h("section", { class: "view", role: "tabpanel", "aria-label": name, "data-view": name, hidden: true });
    const tools = h("div", { style: "display: contents" });
    byId("views").append(view);
    const tab = { name, view, tools, built: false, shown: () => {} };
    tab.button = button(name, () => open(tab), { role: "tab", "data-tab": name });
    tab.build = () => { tab.shown = build(view, tools) ?? (() => {}); tab.built = true; };
    return tab;
  });
  const open = tab => {
    tabs.forEach(other => {
      other.view.hidden = other !== tab;
      other.button.setAttribute("aria-selected", other === tab);
    });
    if (!tab.built) tab.build();
    byId("tools").replaceChildren(tab.tools);
    tab.shown();
  };
  byId("tabs").append(...tabs.map(tab => tab.button));
  open(tabs[0]);
}

function listenToSearch() {
  const input = byId("search");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = NOW.nodes.filter(node => matches(node, words)).length;
    byId("found").textContent = words.length ? `${grouped(found)} of ${grouped(NOW.nodes.length)}` : "";
    tell("search", words);
  });
  addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && document.activeElement === input) {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    }
  });
}

document.title = `kiln: ${DATA.title}`;
document.querySelector("h1").textContent = `kiln ${DATA.title}`;
on("select", showDetail);
showTotals();
showHint();
listenToSearch();
showTabs();
