//! The public functions: gradients of tensors with respect to tensors.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::base::{OpError, OpName, Result, Span};
use crate::grad::mode::without_grad;
use crate::grad::presence::{presences, present_or_zeros, sum_in};
use crate::grad::pull_back::{Cotangent, Tape, pull_back_along};
use crate::ir::Node;
use crate::ir::collect::NodeMap;
use crate::ir::history::{GradCell, GradPresence, GradReducer, GradSum};
use crate::ir::open::closed;
use crate::ir::pending::{Pending, register, share_work};
use crate::plan;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked};
use crate::tensor::options::{options, some};
use crate::tensor::pack::{Pack, alike};
use crate::tensor::rule::with_rule;

options! {
    /// How gradients are taken; see [`grad_with`].
    GradOpts {
        /// The cotangent of the output, of its shape and type. Without one
        /// the output must have a single element, and it is 1.
        cotangent: Option<Tensor> = None, &Tensor => some;
        /// Zeros, instead of an error, for inputs that the output does not
        /// depend on.
        allow_unused: bool = false;
        /// Whether gradients of this graph can be taken again after
        /// [`Tensor::backward_with`].
        retain_graph: bool = false;
    }
}

/// The gradients of a tensor of one element with respect to tensors that
/// [`Tensor::with_requires_grad`] marked or that depend on such. They are lazy
/// tensors like any other, and have gradients themselves.
///
/// As in PyTorch, integer tensors have no gradient, and an input that the
/// output does not depend on is an error (see [`GradOpts::allow_unused`]);
/// every result is then an invalid tensor.
///
/// ```
/// use kiln::prelude::*;
/// # fn main() -> kiln::Result<()> {
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2], ()).with_requires_grad();
/// let cubes = (&x * &x * &x).sum(..);
/// let slope = kiln::grad(&cubes, &[&x]).remove(0);
/// let curvature = kiln::grad(&slope.sum(..), &[&x]).remove(0);
/// assert_eq!(slope.to_vec::<f32>()?, [3.0, 12.0]);
/// assert_eq!(curvature.to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn grad(output: &Tensor, inputs: &[&Tensor]) -> Vec<Tensor> {
    grad_at(Span::caller(), output, inputs, &GradOpts::default())
}

/// [`grad`] with options.
#[track_caller]
pub fn grad_with(output: &Tensor, inputs: &[&Tensor], opts: GradOpts) -> Vec<Tensor> {
    grad_at(Span::caller(), output, inputs, &opts)
}

/// The vector-Jacobian product: for pairs of an output and its cotangent, the
/// cotangents of `inputs`. As [`grad`], but zeros for inputs that the outputs
/// do not depend on, and outputs that depend on no input count for nothing.
#[track_caller]
pub fn vjp(outputs: &[(&Tensor, &Tensor)], inputs: &[&Tensor]) -> Vec<Tensor> {
    let span = Span::caller();
    let roots = || -> Result<Vec<(&Arc<Node>, Tensor)>> {
        let mut roots = Vec::new();
        for (output, cotangent) in outputs {
            let seed = given_seed("vjp", span, output, cotangent)?;
            if output.is_tracked() {
                roots.push((output.node()?, seed));
            }
        }
        Ok(roots)
    };
    let opts = GradOpts::default().allow_unused(true);
    all_or_error(roots().and_then(|roots| gradients(span, &roots, inputs, &opts)), inputs.len())
}

fn grad_at(span: Span, output: &Tensor, inputs: &[&Tensor], opts: &GradOpts) -> Vec<Tensor> {
    let found = || gradients(span, &[(output.node()?, seed(span, output, opts)?)], inputs, opts);
    all_or_error(found(), inputs.len())
}

/// The tensors, or the error in place of each of them.
fn all_or_error(found: Result<Vec<Tensor>>, count: usize) -> Vec<Tensor> {
    found.unwrap_or_else(|error| vec![Tensor::invalid(error); count])
}

fn gradients(
    span: Span,
    roots: &[(&Arc<Node>, Tensor)],
    inputs: &[&Tensor],
    opts: &GradOpts,
) -> Result<Vec<Tensor>> {
    let sources: Vec<Arc<Node>> = inputs.iter().map(|x| x.node().cloned()).collect::<Result<_>>()?;
    if let Some(i) = sources.iter().position(|node| !node.is_tracked()) {
        let expected = "inputs that require gradients";
        let found = format!("input {i}, which neither does nor depends on one that does");
        return Err(grad_error(span, expected, found, inputs));
    }
    let nodes: Vec<&Arc<Node>> = roots.iter().map(|(node, _)| *node).collect();
    let tape = Tape::below(&nodes, &[]);
    not_released(span, &tape)?;
    let source_cotangents = pull_back_along(&tape, roots, &sources)?;
    let site = CallSite { name: OpName::GRADIENT, span };
    let settle = |(i, cotangent): (usize, Cotangent)| match cotangent {
        Cotangent::Value(gradient) => Ok(gradient),
        Cotangent::Unused if !opts.allow_unused => {
            let expected = "inputs that the output depends on (or `allow_unused`)";
            Err(grad_error(span, expected, format!("input {i}, on which it does not"), inputs))
        }
        Cotangent::Zero | Cotangent::Unused => Ok(site.zeros_like(inputs[i])),
    };
    source_cotangents.into_iter().enumerate().map(settle).collect()
}

fn grad_error(
    span: Span,
    expected: impl Into<String>,
    found: impl Into<String>,
    tensors: &[&Tensor],
) -> crate::base::Error {
    OpError::new(OpName::GRADIENT, span, expected, found)
        .with_shapes(tensors.iter().map(|x| x.shape()))
        .into()
}

/// The cotangent of the output.
fn seed(span: Span, output: &Tensor, opts: &GradOpts) -> Result<Tensor> {
    if !output.is_tracked() {
        let found = format!("{} that does not depend on any", output.dtype());
        return Err(grad_error(
            span,
            "a tensor that depends on one that requires gradients",
            found,
            &[output],
        ));
    }
    let Some(given) = &opts.cotangent else {
        if output.numel() != 1 {
            let expected = "an output of one element, or a cotangent of its shape";
            return Err(grad_error(span, expected, format!("shape {}", output.shape()), &[output]));
        }
        let site = CallSite { name: OpName::GRADIENT, span };
        return Ok(site.expand(&site.scalar(1.0, output.dtype(), output.device()), &output.shape()));
    };
    given_seed(OpName::GRADIENT, span, output, given)
}

/// The cotangent that the caller gives for an output.
fn given_seed(call: &'static str, span: Span, output: &Tensor, given: &Tensor) -> Result<Tensor> {
    if output.node()?.ty() != given.node()?.ty() {
        let expected = format!("a cotangent that is {}", described(output));
        let error = OpError::new(call, span, expected, described(given));
        return Err(error.with_shapes([output.shape(), given.shape()]).into());
    }
    Ok(given.clone())
}

fn not_released(span: Span, tape: &Tape) -> Result<()> {
    if tape.nodes.iter().any(|node| node.is_released()) {
        let expected = "a graph whose gradients have not been taken (or `retain_graph`)";
        return Err(grad_error(span, expected, "one that `backward` has been through", &[]));
    }
    Ok(())
}

/// Gradients of parameters.
impl Tensor {
    /// This tensor, as one that gradients are taken with respect to. Tensors
    /// built from it from now on are tracked. Invalid for types that are not
    /// floating. PyTorch: `requires_grad_()`.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let w = Tensor::ones([2], ()).with_requires_grad();
    /// assert!(w.requires_grad() && !(&w * 2.0).requires_grad());
    /// ```
    #[track_caller]
    pub fn with_requires_grad(self) -> Tensor {
        let span = Span::caller();
        let Ok(node) = self.node().cloned() else { return self };
        if !node.ty().dtype.is_float() {
            let error =
                OpError::new("with_requires_grad", span, "a floating type", node.ty().dtype.to_string());
            return Tensor::invalid(error.with_shapes([self.shape()]));
        }
        node.set_grad_cell(Arc::default());
        self
    }

    /// Whether gradients of this tensor accumulate in [`Tensor::grad`]:
    /// [`Tensor::with_requires_grad`] marked it, or it is a parameter's value. PyTorch asks
    /// `x.is_leaf and x.requires_grad`.
    pub fn requires_grad(&self) -> bool {
        self.peek().is_some_and(|node| node.is_parameter())
    }

    /// Whether gradients look at this tensor: it requires them or depends on
    /// one that does.
    pub fn is_tracked(&self) -> bool {
        self.peek().is_some_and(|node| node.is_tracked())
    }

    /// The same values, as a constant for gradients.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        self.detached(Span::caller())
    }

    /// Adds the gradients of this tensor of one element to [`Tensor::grad`]
    /// of everything below it that requires them. They are lazy, and not
    /// tracked themselves; whatever is computed next from the same work
    /// computes them, and this tensor, with it. The graph can be gone through
    /// once.
    ///
    /// Gradients add up whichever threads take them. Those of an earlier pass over other work, such as the
    /// batch before, are computed now, so that no more than one batch is held.
    ///
    /// # Errors
    /// A recorded error; a tensor with more elements, or one that depends on
    /// nothing that requires gradients, or whose graph has been gone through;
    /// an operation without a gradient; what computing the earlier gradients says, which are forgotten if an
    /// index in them was out of range. No gradient else changes then.
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        backward(Span::caller(), self, &GradOpts::default())
    }

    /// [`Tensor::backward`] with options.
    ///
    /// # Errors
    /// As [`Tensor::backward`], and a cotangent of another type.
    #[track_caller]
    pub fn backward_with(&self, opts: GradOpts) -> Result<()> {
        backward(Span::caller(), self, &opts)
    }

    /// The sum of the gradients that [`Tensor::backward`] has left here.
    #[track_caller]
    pub fn grad(&self) -> Option<Tensor> {
        sum_in(&*self.peek()?.grad_cell()?, Span::caller())
    }

    /// Forgets the gradients so far.
    pub fn zero_grad(&self) {
        if let Some(cell) = self.peek().and_then(|node| node.grad_cell()) {
            cell.replace(None);
        }
    }
}

fn backward(span: Span, output: &Tensor, opts: &GradOpts) -> Result<()> {
    let root = output.node()?;
    closed([root], "backward", span)?;
    let seed = seed(span, output, opts)?;
    let tape = Tape::below(&[root], &[]);
    not_released(span, &tape)?;
    let sources: Vec<Arc<Node>> = tape.nodes.iter().filter(|node| node.is_parameter()).cloned().collect();
    compute_earlier(span, root, &sources)?;
    let source_cotangents = without_grad(|| pull_back_along(&tape, &[(root, seed)], &sources))?;
    let gradients = source_cotangents.iter().filter_map(|cotangent| match cotangent {
        Cotangent::Value(gradient) => gradient.peek(),
        Cotangent::Unused | Cotangent::Zero => None,
    });
    closed(gradients, "backward", span)?;
    let found = sources.iter().zip(source_cotangents).filter_map(|(source, cotangent)| match cotangent {
        Cotangent::Value(gradient) => Some((source.grad_cell()?, gradient)),
        Cotangent::Unused | Cotangent::Zero => None,
    });
    let (alone, by_reducer) = by_reducer(found);
    without_grad(|| {
        accumulate(span, alone.into_iter())?;
        by_reducer.into_iter().try_for_each(|(reducer, found)| reducer.reduce(found, span))
    })?;
    let cells = sources.iter().filter_map(|source| source.grad_cell());
    let gradients = cells.map(|cell| Pending::Gradient(Arc::<GradCell>::downgrade(&cell)));
    register(gradients.chain([Pending::root(root)]));
    if !opts.retain_graph {
        tape.nodes.iter().filter(|node| !node.history().is_empty()).for_each(|node| node.release_history());
    }
    Ok(())
}

/// The gradients that accumulate at once, and those that a reducer takes first.
fn by_reducer(
    found: impl Iterator<Item = (Arc<GradCell>, Tensor)>,
) -> (Vec<(Arc<GradCell>, Tensor)>, Vec<(Arc<dyn GradReducer>, Vec<(Arc<GradCell>, Arc<Node>)>)>) {
    let mut alone = Vec::new();
    let mut taken: Vec<(Arc<dyn GradReducer>, Vec<(Arc<GradCell>, Arc<Node>)>)> = Vec::new();
    for (cell, gradient) in found {
        let (Some(reducer), Some(node)) = (cell.reducer(), gradient.peek().cloned()) else {
            alone.push((cell, gradient));
            continue;
        };
        match taken.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &reducer)) {
            Some((_, found)) => found.push((cell, node)),
            None => taken.push((reducer, vec![(cell, node)])),
        }
    }
    (alone, taken)
}

/// Adds gradients to those that cells hold, each in one go, whatever other threads add meanwhile.
fn accumulate(span: Span, found: impl Iterator<Item = (Arc<GradCell>, Tensor)>) -> Result<()> {
    let site = CallSite { name: OpName::GRADIENT, span };
    let mut left = together(site, found);
    while !left.is_empty() {
        let held: Vec<Option<GradSum>> = left.iter().map(|(cell, _)| cell.sum()).collect();
        let sums = sums(site, &left, &held)?;
        let presences = presences(span, &left, &held);
        let mut refused = Vec::new();
        let new = sums.into_iter().zip(presences).map(|(node, presence)| GradSum { node, presence });
        for ((cell, gradient), (held, new)) in left.into_iter().zip(held.iter().zip(new)) {
            let presence = new.presence.as_ref();
            let registered =
                presence.map(|presence| Pending::Gradient(Arc::<GradPresence>::downgrade(presence)));
            if !cell.replace_if(held.as_ref(), new) {
                refused.push((cell, gradient));
            }
            register(registered);
        }
        left = refused;
    }
    Ok(())
}

/// The gradients by cell; those of one cell are added up.
fn together(
    site: CallSite,
    found: impl Iterator<Item = (Arc<GradCell>, Tensor)>,
) -> Vec<(Arc<GradCell>, Tensor)> {
    let mut cells: Vec<(Arc<GradCell>, Tensor)> = Vec::new();
    let mut known: NodeMap<usize> = NodeMap::default();
    for (cell, gradient) in found {
        match known.entry(Arc::as_ptr(&cell) as usize) {
            Entry::Occupied(place) => {
                let sum = &mut cells[*place.get()].1;
                *sum = site.add(&*sum, gradient);
            }
            Entry::Vacant(place) => {
                place.insert(cells.len());
                cells.push((cell, gradient));
            }
        }
    }
    cells
}

/// What cells hold and the new gradients, added up: packed, so that they are side by
/// side in memory and optimizers can work on all of them at once.
fn sums(
    site: CallSite,
    cells: &[(Arc<GradCell>, Tensor)],
    held: &[Option<GradSum>],
) -> Result<Vec<Arc<Node>>> {
    let keys = cells.iter().zip(held).map(|((cell, new), held)| {
        let held = held.as_ref().map(|GradSum { node, presence }| {
            (node.ty().dtype, node.ty().device, presence.as_ref().map(Arc::as_ptr))
        });
        (new.dtype(), new.device(), cell.division(), held)
    });
    let mut sums: Vec<Option<Arc<Node>>> = vec![None; cells.len()];
    for members in alike(keys) {
        let new: Vec<Tensor> = members.iter().map(|&i| cells[i].1.clone()).collect();
        let old = members.iter().filter_map(|&i| held[i].as_ref());
        let old: Vec<Tensor> = old.map(|held| Tensor::from_node(held.node.clone())).collect();
        let shapes = new.iter().map(Tensor::shape).collect();
        let pack = Pack::new(site, shapes, new[0].dtype(), new[0].device());
        let whole = pack.whole(&new)?;
        let sum = match &held[members[0]] {
            Some(held) => {
                let old = present_or_zeros(site, held.presence.as_deref(), pack.whole(&old)?);
                site.add(&old, &whole)
            }
            None => whole,
        };
        for (number, &i) in members.iter().enumerate() {
            sums[i] = Some(pack.part(&sum, number).node()?.clone());
        }
    }
    Ok(sums.into_iter().flatten().collect())
}

/// Computes the gradients that earlier backward passes left, unless this one shares work with them: what
/// batches need would be held until all are computed, and gains nothing from being computed together.
fn compute_earlier(span: Span, root: &Arc<Node>, sources: &[Arc<Node>]) -> Result<()> {
    let cells = sources.iter().filter_map(|source| source.grad_cell());
    let lazy = |sum: &Arc<Node>| sum.value().is_none() && !sum.ty().device.is_meta();
    let left = cells.filter_map(|cell| Some((cell.get().filter(lazy)?, cell.is_long())));
    let (left, long): (Vec<Arc<Node>>, Vec<bool>) = left.unzip();
    if left.is_empty() || (!long.contains(&true) && share_work(std::slice::from_ref(root), &left)) {
        return Ok(());
    }
    plan::realize(&left, span)
}

/// `forward` of the inputs, with a gradient of the caller's: `rule` maps the
/// inputs, the output and its cotangent to the inputs' cotangents, `None`
/// where there is none.
///
/// Taking gradients is an error if the rule gives more or fewer than there are inputs, or one
/// of another shape, type or device than its input.
///
/// ```
/// use kiln::prelude::*;
/// # fn main() -> kiln::Result<()> {
/// // Rounds, and lets gradients pass as if it did not.
/// let x = Tensor::from_vec(vec![0.2f32, 1.7], [2], ()).with_requires_grad();
/// let y = kiln::custom_grad(&[&x], |x| x[0].round(), |_, _, g| vec![Some(g.clone())]);
/// let gradient = kiln::grad(&y.sum(..), &[&x]).remove(0);
/// assert_eq!(gradient.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn custom_grad(
    inputs: &[&Tensor],
    forward: impl FnOnce(&[Tensor]) -> Tensor,
    rule: impl Fn(&[Tensor], &Tensor, &Tensor) -> Vec<Option<Tensor>> + Send + Sync + 'static,
) -> Tensor {
    let site = CallSite::here("custom_grad");
    if let Err(invalid) = site.valid(inputs) {
        return invalid;
    }
    let owned: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
    with_rule(forward(&owned), inputs, move |inputs, output, cotangent| {
        let found = rule(inputs, output, cotangent);
        match fitting(site, inputs, &found) {
            Ok(()) => found,
            Err(invalid) => vec![Some(invalid); inputs.len()],
        }
    })
}

/// Whether a user's rule has found a gradient, or none, for each input.
fn fitting(site: CallSite, inputs: &[Tensor], found: &[Option<Tensor>]) -> Checked<()> {
    let all: Vec<&Tensor> = inputs.iter().collect();
    site.require(found.len() == inputs.len(), &all, || {
        (
            format!("{} gradients from its rule, one or `None` for each input", inputs.len()),
            found.len().to_string(),
        )
    })?;
    let floating = |(_, (x, _)): &(usize, (&Tensor, _))| x.dtype().is_float();
    for (i, (x, gradient)) in inputs.iter().zip(found).enumerate().filter(floating) {
        let Some(gradient) = gradient else { continue };
        site.require(gradient.ty() == x.ty(), &[x, gradient], || {
            (format!("a gradient of input {i} that is {}", described(x)), described(gradient))
        })?;
    }
    Ok(())
}

/// A tensor's type with its device.
fn described(x: &Tensor) -> String {
    format!("{}{} on {}", x.dtype(), x.shape(), x.device())
}
