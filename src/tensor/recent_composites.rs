//! The composites that a thread made last, to be applied again: the layers of a model differ in nothing but
//! their operands, and a body takes longer to build than all else of a layer's attention.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::{DType, Kind, Region, Scalar, Span};
use crate::ir::history::tracking;
use crate::ir::{BuiltIn, Composite, Op, Type};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::control::composite_at;

/// Composites that are remembered. They hold no data.
const REMEMBERED: usize = 8;

/// A composite, and what its nodes depend on beside its name, attributes and operands' types.
struct Recent {
    span: Span,
    region: Region,
    tracking: bool,
    composite: Arc<Composite>,
}

thread_local! {
    static RECENT: RefCell<VecDeque<Recent>> = const { RefCell::new(VecDeque::new()) };
}

/// [`composite_at`] of one result, where name, attributes and operands' types say all of the body.
pub(crate) fn determined_composite_at(
    span: Span,
    built_in: BuiltIn,
    attributes: &[(&'static str, Scalar)],
    inputs: &[Tensor],
    body: impl FnOnce(&[Tensor]) -> Tensor,
) -> Tensor {
    let types: Option<Vec<&Type>> = inputs.iter().map(Tensor::ty).collect();
    if let Some(composite) = types.and_then(|types| recall(span, built_in, attributes, &types)) {
        let operands: Vec<&Tensor> = inputs.iter().collect();
        let site = CallSite { name: built_in.name(), span };
        return Tensor::apply(site.name, site.span, Op::Composite(composite, 0), &operands);
    }
    let made = composite_at(span, built_in, attributes, inputs, |inputs| vec![body(inputs)]).remove(0);
    if let Some(Op::Composite(composite, _)) = made.peek().map(|node| node.op()) {
        remember(span, composite);
    }
    made
}

fn recall(
    span: Span,
    built_in: BuiltIn,
    attributes: &[(&'static str, Scalar)],
    types: &[&Type],
) -> Option<Arc<Composite>> {
    let here = (span, Region::current(), tracking(), Some(built_in));
    let is_wanted = |recent: &&Recent| {
        let Recent { span, region, tracking, composite } = recent;
        (*span, *region, *tracking, composite.built_in) == here
            && composite.attributes.iter().map(bits).eq(attributes.iter().map(bits))
            && composite.body.params.iter().eq(types.iter().copied())
    };
    RECENT.with_borrow(|recent| Some(recent.iter().find(is_wanted)?.composite.clone()))
}

/// What tells an attribute from another.
pub(super) fn bits(&(name, value): &(&'static str, Scalar)) -> (&'static str, Kind, u64) {
    let dtype = if value.kind() == Kind::Float { DType::F64 } else { value.default_dtype() };
    (name, value.kind(), value.to_bits(dtype))
}

fn remember(span: Span, composite: &Arc<Composite>) {
    let (region, tracking) = (Region::current(), tracking());
    let recent = Recent { span, region, tracking, composite: composite.clone() };
    let oldest = RECENT.with_borrow_mut(|all| {
        all.push_front(recent);
        if all.len() > REMEMBERED { all.pop_back() } else { None }
    });
    // Dropped while the list is free to be looked at.
    drop(oldest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::attention::AttentionOpts;
    use crate::tensor::testing::pattern;

    fn composite(of: &Tensor) -> Arc<Composite> {
        let node = of.peek().expect("a valid tensor");
        let Op::Composite(composite, 0) = node.op() else { unreachable!("attention is a composite") };
        composite.clone()
    }

    /// Attention from one line.
    fn attention(keys: usize, causal: bool) -> Arc<Composite> {
        let [q, k] = [pattern(&[2, 3, 4], 1), pattern(&[2, keys, 4], 2)];
        composite(&q.scaled_dot_product_attention(&k, &k, AttentionOpts::default().causal(causal)))
    }

    #[test]
    fn layers_share_a_composite_and_others_do_not() {
        let first = attention(5, false);
        assert!(Arc::ptr_eq(&first, &attention(5, false)));
        assert!(!Arc::ptr_eq(&first, &attention(6, false)), "another type");
        assert!(!Arc::ptr_eq(&first, &attention(5, true)), "another attribute");
        {
            let _guard = crate::no_grad();
            assert!(!Arc::ptr_eq(&first, &attention(5, false)), "without rules for gradients");
        }
        {
            let _region = Region::current().in_module("layers.1").enter();
            assert!(!Arc::ptr_eq(&first, &attention(5, false)), "another module");
        }
        let [q, k] = [pattern(&[2, 3, 4], 1), pattern(&[2, 5, 4], 2)];
        let elsewhere = composite(&q.scaled_dot_product_attention(&k, &k, AttentionOpts::default()));
        assert!(!Arc::ptr_eq(&first, &elsewhere), "another line");
        assert!(Arc::ptr_eq(&first, &attention(5, false)), "still remembered");
        (6..6 + REMEMBERED).for_each(|keys| drop(attention(keys, false)));
        assert!(!Arc::ptr_eq(&first, &attention(5, false)), "forgotten");
    }
}
