//! What 16 bits do to each layer, by running a graph both ways.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use crate::base::{DType, OpName, Result, Shape, Span};
use crate::ir::collect::{Collected, collect};
use crate::ir::{Graph, Node, NodeId, Op};
use crate::plan;
use crate::schedule::fusion_class::{FusionClass, fusion_class};
use crate::tensor::Tensor;
use crate::tensor::autocast::{AutocastOpts, with_autocast};
use crate::tensor::compose::CallSite;
use crate::tensor::random::{generator, set_generator};

/// What [`compare_precision`] found. Prints as a table, of one line a layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrecisionComparison {
    /// The type of products.
    pub dtype: DType,
    /// The results of calls, in the order they are computed.
    pub layers: Vec<LayerPrecision>,
    /// Which of them is the first whose error jumps: it overflows, or its error is over eight times the
    /// largest before it and over what rounding alone brings in.
    pub first_jump: Option<usize>,
}

/// The result of a call, both ways.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LayerPrecision {
    /// What was called; with `grad_` what the gradients of it compute.
    pub name: String,
    /// The type it has under autocast.
    pub dtype: DType,
    /// Extents of the value.
    pub shape: Shape,
    /// The 2-norm of the difference over that of the value in full precision, where both are finite.
    pub relative_error: f64,
    /// Elements that are infinite or NaN only under autocast.
    pub overflows: usize,
    /// Elements that are 0 only under autocast.
    pub underflows: usize,
    /// The user's line.
    pub at: Span,
}

/// Builds a graph in full precision and again under [`autocast`](crate::autocast), computes both, and
/// compares the results of every call on the way. What `build` gives may be a loss, or a gradient: then the
/// backward pass is compared too.
///
/// `build` runs twice, from the same state of the random generator. A model with running statistics belongs
/// into evaluation mode. All results are in memory at once.
///
/// # Errors
/// The error recorded in what `build` gives, and what realizing it says; a graph that depends on the types.
///
/// # Examples
/// ```
/// use kiln::compare_precision;
/// use kiln::prelude::*;
/// let x = Tensor::from([[3e-8f32, 1.0]]);
/// let found = compare_precision(DType::F16, || x.matmul(&x.t()).sin() * 2.0)?;
/// let product = &found.layers[0];
/// assert_eq!((&product.name[..], product.dtype, product.overflows), ("matmul", DType::F16, 0));
/// assert!(product.relative_error < 1e-3 && found.first_jump.is_none(), "{found}");
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn compare_precision(dtype: DType, build: impl Fn() -> Tensor) -> Result<PrecisionComparison> {
    let site = CallSite::here("compare_precision");
    let random = generator();
    let full = with_autocast(AutocastOpts::default().enabled(false), &build);
    set_generator(random);
    let low = with_autocast(dtype, &build);
    let [full, low] = [Results::of(&full)?, Results::of(&low)?];
    let same = full.calls.len() == low.calls.len()
        && full
            .calls
            .iter()
            .zip(&low.calls)
            .all(|(a, b)| (a.name(), a.ty().shape.clone()) == (b.name(), b.ty().shape.clone()));
    if !same {
        let found =
            format!("{} results in full precision, {} under autocast", full.calls.len(), low.calls.len());
        return Err(site.error("the same calls both ways", found, &[]));
    }
    let (full, low) = (full.values(site)?, low.values(site)?);
    let layers: Vec<LayerPrecision> =
        full.iter().zip(&low).map(|(full, low)| layer(site, full, low)).collect::<Result<_>>()?;
    Ok(PrecisionComparison { dtype, first_jump: first_jump(dtype, &layers), layers })
}

/// The results of calls in a graph, in the order they are computed.
struct Results {
    calls: Vec<Arc<Node>>,
}

impl Results {
    fn of(root: &Tensor) -> Result<Results> {
        let node = root.node()?;
        let collected = collect(std::slice::from_ref(node)).map_err(|_| {
            let site = CallSite { name: "compare_precision", span: node.span() };
            site.error("a graph that no other thread computes", "one that waits for itself", &[])
        })?;
        let nodes = results_of_calls(&collected).into_iter().map(|id| collected.nodes[id.index()].clone());
        Ok(Results { calls: nodes.filter(|node| node.ty().dtype.is_float()).collect() })
    }

    /// Computed.
    fn values(self, site: CallSite) -> Result<Vec<Tensor>> {
        plan::realize(&self.calls, site.span)?;
        Ok(self.calls.into_iter().map(Tensor::from_node).collect())
    }
}

/// What calls result in, in the order it is computed. The reader of a result is another call, or the next
/// product of one that has several. A cast at the end of a call is part of it; movement is not.
fn results_of_calls(collected: &Collected) -> Vec<NodeId> {
    let graph = collected.graph();
    let call = |id: NodeId| (collected.nodes[id.index()].name(), collected.span(id));
    // By what a call computes last: that, or the cast of it.
    let mut results: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let mut read = |mut id: NodeId, reader: Option<NodeId>| {
        let mut casts = Vec::new();
        while moves(graph, id) && !graph.node(id).operands.is_empty() {
            casts.extend(matches!(graph.node(id).op, Op::Cast(_)).then_some(id));
            id = graph.node(id).operands[0];
        }
        let product = |reader: NodeId| matches!(graph.node(reader).op, Op::Contract(_));
        if moves(graph, id) || reader.is_some_and(|reader| !product(reader) && call(reader) == call(id)) {
            return;
        }
        let result = results.entry(id).or_insert(id);
        if let Some(&cast) = casts.iter().rev().find(|&&cast| call(cast) == call(id)) {
            *result = cast;
        }
    };
    for id in graph.ids().filter(|&id| !moves(graph, id)) {
        graph.node(id).operands.iter().for_each(|&operand| read(operand, Some(id)));
    }
    collected.outputs.iter().for_each(|&output| read(output, None));
    results.into_values().collect()
}

/// Whether a node computes nothing: a source, movement, or a cast.
fn moves(graph: &Graph, id: NodeId) -> bool {
    match (&graph.node(id).op, fusion_class(graph.node(id), true)) {
        (Op::Cast(_), _) => true,
        (_, FusionClass::Input | FusionClass::Source | FusionClass::Movement | FusionClass::Pack) => true,
        (_, FusionClass::Pointwise | FusionClass::Structural | FusionClass::Scatter) => false,
        (_, FusionClass::Opaque) => false,
    }
}

fn layer(site: CallSite, full: &Tensor, low: &Tensor) -> Result<LayerPrecision> {
    let node = low.node()?;
    let [exact, found] = [full, low].map(|x| site.cast(x, DType::F64).to_vec::<f64>());
    let (mut difference, mut norm, mut overflows, mut underflows) = (0.0, 0.0, 0, 0);
    for (exact, found) in exact?.into_iter().zip(found?) {
        if exact.is_finite() && found.is_finite() {
            difference += (exact - found) * (exact - found);
            norm += exact * exact;
            underflows += usize::from(found == 0.0 && exact != 0.0);
        } else {
            overflows += usize::from(exact.is_finite());
        }
    }
    let relative_error = if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() };
    let name = match node.name() {
        Some(OpName::GRADIENT) | None => format!("grad_{}", node.op().name()),
        Some(name) => name.to_string(),
    };
    let (dtype, shape, at) = (low.dtype(), low.shape(), node.span());
    Ok(LayerPrecision { name, dtype, shape, relative_error, overflows, underflows, at })
}

fn first_jump(dtype: DType, layers: &[LayerPrecision]) -> Option<usize> {
    let rounding = if dtype == DType::F16 { f64::exp2(-11.0) } else { f64::exp2(-8.0) };
    let mut largest = rounding;
    layers.iter().position(|layer| {
        let jumps = layer.overflows > 0 || layer.relative_error > 8.0 * largest;
        largest = layer.relative_error.max(largest);
        jumps
    })
}

impl Display for PrecisionComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10}  {:>9}  {:>9}  layer under {}", "error", "overflow", "underflow", self.dtype)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let LayerPrecision { name, dtype, shape, relative_error, overflows, underflows, at } = layer;
            write!(
                f,
                "{relative_error:>10.1e}  {overflows:>9}  {underflows:>9}  {name} {dtype}{shape} at {at}"
            )?;
            let jumps = self.first_jump == Some(number);
            writeln!(f, "{}", if jumps { "  <- the error jumps here" } else { "" })?;
        }
        Ok(())
    }
}
