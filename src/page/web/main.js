// Puts the page together.

function showTotals() {
  byId("totals").append(...TOTALS.filter(([key]) => NOW.totals[key] !== undefined).map(([key, name, format]) => {
    const [value, before] = [NOW.totals[key], SIDES.length > 1 ? SIDES[0].totals[key] : null];
    const was = before === null || before === value ? null : h("small", {}, ` was ${format(before)}`);
    return h("div", { class: "total", "data-total": key, "data-value": value }, h("b", {}, format(value), was), h("span", {}, name));
  }));
}

/** The graph of one plan of a side; where there are several, a list to choose from. */
function graphPane(side, number, panes) {
  const holder = h("div", { class: "holder" });
  const title = SIDES.length > 1 ? (number ? "After" : "Before") : "";
  const plans = [...side.plans].sort((a, b) => weightOf(b) - weightOf(a));
  const name = plan => `${grouped(plan.nodes.length)} kernels and transfers`
    + (side.profile ? `, ${seconds(weightOf(plan))} in all` : "");
  const pane = { view: null };
  const choose = plan => {
    if (pane.view?.plan === plan) return;
    holder.replaceChildren();
    pane.views ??= new Map();
    if (!pane.views.has(plan)) pane.views.set(plan, new GraphView(holder, plan, COMPARED.changes));
    pane.view = pane.views.get(plan);
    holder.replaceChildren(pane.view.svg);
    pane.view.shown();
  };
  const list = h("select", { "aria-label": "plan", onchange: event => choose(plans[event.target.value]) },
    plans.map((plan, at) => h("option", { value: at }, `Plan ${at + 1}: ${name(plan)}`)));
  const head = title || plans.length > 1 ? h("h4", {}, title, " ", plans.length > 1 ? list : "") : null;
  panes.append(h("div", { class: "pane" }, head, holder));
  on("select", node => {
    if (node.side !== side || !side.plans.includes(node.plan)) return;
    list.value = plans.indexOf(node.plan);
    choose(node.plan);
    pane.view.select(node);
  });
  pane.begin = () => choose(pane.view?.plan ?? plans[0]);
  return pane;
}

const weightOf = plan => plan.nodes.reduce((sum, node) => sum + (node.total ?? 0), 0);

function graphView(parent, tools) {
  const panes = h("div", { class: "panes" });
  parent.append(panes);
  const all = SIDES.filter(side => side.plans.length).map((side, number) => graphPane(side, number, panes));
  const each = act => () => all.forEach(pane => act(pane.view.viewport));
  const used = ROLES.filter(([role]) => SIDES.some(side => side.nodes.some(node => node.role === role)));
  tools.append(button("Fit", each(port => port.fit()), { id: "fit" }), button("+", each(port => port.zoom(1.25)), { "aria-label": "zoom in" }),
    button("−", each(port => port.zoom(0.8)), { "aria-label": "zoom out" }), legend([...used.map(([, color, name]) => [color, name]),
      ...SIDES.length > 1 ? [["added", "added"], ["removed", "removed"], ["changed", "changed"]] : []]));
  return () => all.forEach(pane => pane.begin());
}

const VIEWS = [
  ...SIDES.length > 1 ? [["Changes", changesView]] : [], ["Graph", graphView], ...NOW.profile ? [["Timeline", timelineView]] : [], ["Memory", memoryView], ["Kernels", tableView],
];

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
document.querySelector("h1").textContent = `kiln: ${DATA.title}`;
on("select", showDetail);
showTotals();
showHint();
listenToSearch();
showTabs();
