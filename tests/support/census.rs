//! What a fuzz has met, so that its coverage cannot vanish unnoticed.

use std::collections::BTreeMap;

use kiln::DType;
use kiln::unstable::ir::collect::collect;
use kiln::unstable::ir::oracle::{Data, Value};
use kiln::unstable::ir::{AluOp, Graph, Leaf, Monoid, Node, Op};
use kiln::unstable::runtime::host;

use super::random_leaf::Mode;

/// How often each thing was met.
#[derive(Debug, Default)]
pub struct Census(BTreeMap<String, u64>);

impl Census {
    /// Counts one.
    pub fn note(&mut self, what: impl Into<String>) {
        self.add(what, 1);
    }

    /// Counts several.
    pub fn add(&mut self, what: impl Into<String>, count: u64) {
        *self.0.entry(what.into()).or_default() += count;
    }

    /// How often.
    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Asserts that each was met at least so many times.
    #[track_caller]
    pub fn require<'a>(&self, least: u64, all: impl IntoIterator<Item = &'a str>) {
        let rare: Vec<&str> = all.into_iter().filter(|what| self.count(what) < least).collect();
        assert!(rare.is_empty(), "met fewer than {least} times: {rare:?}\nin {self:#?}");
    }

    /// Counts each feature that a graph has, once.
    pub fn graph(&mut self, nodes: &[std::sync::Arc<Node>]) {
        let collected = collect(nodes).expect("nobody computes them");
        let mut features: Vec<String> = features(collected.graph());
        for leaf in collected.leaves() {
            let value = leaf.value().expect("a leaf has a value");
            features.extend(layout(leaf, value).into_iter().map(str::to_string));
            if leaf.ty().device == kiln::Device::cpu() {
                let bytes = host::bytes(&value.buffer);
                features.extend(specials("data", &Value::from_view(leaf.ty().clone(), bytes, &value.layout)));
            }
        }
        features.sort();
        features.dedup();
        features.into_iter().for_each(|feature| self.note(feature));
    }

    /// Counts what a compared result holds.
    pub fn result(&mut self, value: &Value) {
        self.note(format!("compared {}", value.ty.dtype));
        self.note(format!("compared rank {}", value.ty.shape.rank()));
        specials("result", value).into_iter().for_each(|feature| self.note(feature));
    }
}

fn features(graph: &Graph) -> Vec<String> {
    let mut features = Vec::new();
    let mut uses = vec![0; graph.nodes.len()];
    graph.nodes.iter().flat_map(|node| &node.operands).for_each(|operand| uses[operand.index()] += 1);
    for (node, &uses) in graph.nodes.iter().zip(&uses) {
        let name = match &node.op {
            Op::Scan(monoid, _) => format!("scan {}", monoid.name()),
            Op::Scatter(_, mode) => format!("scatter {mode:?}"),
            op => op.name().to_string(),
        };
        features.push(name);
        features.push(node.ty.dtype.to_string());
        features.push(format!("rank {}", node.ty.shape.rank()));
        if node.ty.shape.numel() == 0 {
            features.push("empty tensor".into());
        }
        if uses > 1 && !node.operands.is_empty() {
            features.push("shared subgraph".into());
        }
        let ranks = || node.operands.iter().map(|&operand| graph.ty(operand).shape.rank());
        if matches!(node.op, Op::Alu(_)) && ranks().any(|rank| rank == 0) && ranks().any(|rank| rank > 0) {
            features.push("implicit broadcast".into());
        }
    }
    if graph.outputs.len() > 1 {
        features.push("several results".into());
    }
    features
}

fn layout(leaf: &Node, value: &Leaf) -> Vec<&'static str> {
    let shape = &leaf.ty().shape;
    let strides = &value.layout.strides;
    let mut found = Vec::new();
    if value.layout.offset > 0 {
        found.push("view with an offset");
    }
    if shape.numel() > 1 && !value.layout.is_contiguous(shape) {
        let axes = || (0..shape.rank()).filter(|&axis| shape[axis] > 1);
        if axes().any(|axis| strides[axis] < 0) {
            found.push("view backwards");
        } else if axes().any(|axis| strides[axis] == 0) {
            found.push("view that repeats");
        } else if axes().collect::<Vec<_>>().windows(2).any(|pair| strides[pair[0]] < strides[pair[1]]) {
            found.push("view transposed");
        } else {
            found.push("view with gaps");
        }
    }
    found
}

fn specials(of: &str, value: &Value) -> Vec<String> {
    let Data::Float(data) = &value.data else { return Vec::new() };
    let mut found = Vec::new();
    for (name, is) in [
        ("NaN", f64::is_nan as fn(f64) -> bool),
        ("infinity", |x| x == f64::INFINITY),
        ("-infinity", |x| x == f64::NEG_INFINITY),
        ("negative zero", |x| x == 0.0 && x.is_sign_negative()),
    ] {
        if data.iter().any(|&x| is(x)) {
            found.push(format!("{name} in {of}"));
        }
    }
    found
}

/// What every fuzz must meet, whatever its numbers.
pub const COMMON: &[&str] = &[
    "iota",
    "const",
    "param",
    "cast",
    "bitcast",
    "reshape",
    "permute",
    "expand",
    "pad",
    "slice",
    "flip",
    "window",
    "unwindow",
    "contract",
    "gather",
    "sort",
    "copy",
    "loop",
    "parts",
    "scatter Set",
    "scatter Add",
    "scatter Max",
    "scatter Min",
    "scatter Mul",
    "scan sum",
    "rank 0",
    "rank 1",
    "rank 2",
    "rank 3",
    "rank 4",
    "rank 5",
    "rank 6",
    "compared rank 0",
    "compared rank 6",
    "empty tensor",
    "shared subgraph",
    "implicit broadcast",
    "several results",
    "aliased leaves",
    "view with an offset",
    "view backwards",
    "view that repeats",
    "view transposed",
    "view with gaps",
    "leaf overwritten",
    "leaf kept",
    "unasked value kept",
    "warm without planning",
    "plans resized",
    "planned again",
];

/// What else a fuzz of a mode must meet: all types, and every scalar
/// operation and monoid that the mode can draw.
pub fn required(mode: Mode, special: bool) -> Vec<String> {
    let mut names: Vec<String> = COMMON.iter().map(|name| name.to_string()).collect();
    for dtype in DType::ALL.into_iter().filter(|&dtype| super::device::has(dtype)) {
        names.extend([dtype.to_string(), format!("compared {dtype}")]);
    }
    names.extend((mode == Mode::Smooth).then(|| "attention".to_string()));
    let float_only = |op: &AluOp| !op.accepts().int && !op.accepts().bool;
    let exact = [AluOp::Floor, AluOp::Trunc, AluOp::Round];
    let drawn = |op: &&AluOp| mode == Mode::Smooth || !float_only(op) || exact.contains(op);
    names.extend(AluOp::ALL.iter().filter(drawn).map(|op| op.name().to_string()));
    let drawn = |monoid: &&Monoid| mode == Mode::Smooth || !matches!(monoid, Monoid::M2 | Monoid::LogSumExp);
    names.extend(Monoid::ALL.iter().filter(drawn).map(|monoid| monoid.name().to_string()));
    if special {
        for of in ["data", "result"] {
            names.extend(["NaN", "infinity", "-infinity"].map(|name| format!("{name} in {of}")));
        }
    }
    names
}
