//! Gradient rules that stand in place of the primitives'.

use std::sync::Arc;

use crate::base::{Result, Span};
use crate::ir::history::{Override, VjpRule, set_tracking};
use crate::ir::{Node, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// A rule on tensors, as one on nodes.
struct TensorRule<F>(F);

impl<F> VjpRule for TensorRule<F>
where
    F: Fn(&[Tensor], &Tensor, &Tensor) -> Vec<Option<Tensor>> + Send + Sync,
{
    fn pull_back(
        &self,
        inputs: &[Arc<Node>],
        output: &Arc<Node>,
        cotangent: &Arc<Node>,
    ) -> Result<Vec<Option<Arc<Node>>>> {
        let inputs: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from_node).collect();
        let (output, cotangent) = (Tensor::from_node(output.clone()), Tensor::from_node(cotangent.clone()));
        let found = (self.0)(&inputs, &output, &cotangent);
        found.into_iter().map(|x| x.map(|x| x.node().cloned()).transpose()).collect()
    }
}

/// `result` as a function of `inputs` whose gradient is `rule`: from the
/// inputs, the result and its cotangent to the inputs' cotangents.
pub(crate) fn with_rule(
    result: Tensor,
    inputs: &[&Tensor],
    rule: impl Fn(&[Tensor], &Tensor, &Tensor) -> Vec<Option<Tensor>> + Send + Sync + 'static,
) -> Tensor {
    let tracked = inputs.iter().any(|x| x.peek().is_some_and(|node| node.is_tracked()));
    let Some(node) = result.peek().filter(|node| tracked && node.ty().dtype.is_float()) else {
        return result;
    };
    // A node that is more than this result gets one of its own on top.
    let shared =
        node.value().is_some() || inputs.iter().any(|x| x.peek().is_some_and(|x| Arc::ptr_eq(x, node)));
    let own = if shared { identity(&result, node.span()) } else { result.clone() };
    let Some(node) = own.peek() else { return own };
    let inputs = inputs.iter().filter_map(|x| x.peek().cloned()).collect();
    Tensor::from_node(node.overridden(Override { inputs, rule: Arc::new(TensorRule(rule)) }))
}

/// `result`, which holds the element at `index` of each row of `x`, as a
/// function whose cotangent goes to those elements alone.
pub(crate) fn picked(site: CallSite, result: Tensor, x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    with_rule(result, &[x, index], move |inputs, _, cotangent| {
        let zeros = site.expand(&site.scalar(0.0, cotangent.dtype(), cotangent.device()), &inputs[0].shape());
        let along = |x: &Tensor| site.unsqueeze(x, axis);
        let add = Op::Scatter(axis as u8, ScatterMode::Add);
        vec![Some(site.apply(add, &[&zeros, &along(&inputs[1]), &along(cotangent)])), None]
    })
}

/// The same tensor under a node of its own.
pub(crate) fn identity(x: &Tensor, span: Span) -> Tensor {
    Tensor::apply("identity", span, Op::reshape(x.shape()), &[x])
}

impl Tensor {
    /// The node, without looking at an error.
    pub(crate) fn peek(&self) -> Option<&Arc<Node>> {
        self.repr.as_ref().ok()
    }

    /// The same values, as a constant for gradients.
    pub(crate) fn detached(&self, span: Span) -> Tensor {
        let tracked = self.peek().is_some_and(|node| node.is_tracked());
        if tracked { self.alone(span) } else { self.clone() }
    }

    /// The same values under a node that is nobody else's, a constant for
    /// gradients.
    pub(crate) fn alone(&self, span: Span) -> Tensor {
        let Some(node) = self.peek() else { return self.clone() };
        if let Some(value) = node.value() {
            return Tensor::from_node(Node::leaf(node.ty().clone(), value.clone(), span));
        }
        let before = set_tracking(false);
        let own = identity(self, span);
        set_tracking(before);
        own
    }
}
