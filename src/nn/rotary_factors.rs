//! Sines and cosines that queries, keys and layers at one position share: the graph of a token holds them once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::base::{DType, Device, Span};
use crate::ir::Node;
use crate::nn::rotary::RotaryScaling;
use crate::tensor::Tensor;

/// Factors that are remembered: of models whose layers turn in several ways, too.
const REMEMBERED: usize = 4;

/// What factors depend on.
#[derive(PartialEq)]
pub(super) struct FactorsOf {
    pub base: f64,
    pub interleaved: bool,
    pub scaling: RotaryScaling,
    pub length: usize,
    pub width: usize,
    pub device: Device,
    pub dtype: DType,
    pub span: Span,
}

/// Factors that a thread made for positions from `start` on. They are nobody's once no graph needs them.
struct Recent {
    of: FactorsOf,
    start: Weak<Node>,
    factors: [Weak<Node>; 2],
}

thread_local! {
    static RECENT: RefCell<VecDeque<Recent>> = const { RefCell::new(VecDeque::new()) };
}

/// Factors for positions from `start` on: those that some graph still needs, or else made anew.
pub(super) fn shared(of: FactorsOf, start: &Tensor, make: impl FnOnce() -> [Tensor; 2]) -> [Tensor; 2] {
    let Some(start) = start.peek() else { return make() };
    let known = RECENT.with_borrow(|recent| {
        let is_wanted = |known: &&Recent| known.start.as_ptr() == Arc::as_ptr(start) && known.of == of;
        let [cos, sin] = &recent.iter().find(is_wanted)?.factors;
        Some([cos.upgrade()?, sin.upgrade()?].map(Tensor::from_node))
    });
    known.unwrap_or_else(|| {
        let made = make();
        if let [Some(cos), Some(sin)] = made.each_ref().map(Tensor::peek) {
            let factors = [cos, sin].map(Arc::downgrade);
            let recent = Recent { of, start: Arc::downgrade(start), factors };
            RECENT.with_borrow_mut(|all| {
                all.push_front(recent);
                all.truncate(REMEMBERED);
            });
        }
        made
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(width: usize) -> FactorsOf {
        let (device, dtype, span) = (Device::cpu(), DType::F32, Span::caller());
        let scaling = RotaryScaling::None;
        FactorsOf { base: 1e4, interleaved: false, scaling, length: 1, width, device, dtype, span }
    }

    #[test]
    fn factors_are_shared_while_a_graph_needs_them() {
        let [start, other] = [3i64, 3].map(|at| Tensor::scalar(at, ()));
        let (made, span) = (std::cell::Cell::new(0), Span::caller());
        let shared = |width: usize, start: &Tensor| {
            let make = || {
                made.set(made.get() + 1);
                [(); 2].map(|()| Tensor::ones([width], ()))
            };
            shared(FactorsOf { span, ..of(width) }, start, make)
        };
        let held = shared(8, &start);
        assert!(held[0].ptr_eq(&shared(8, &start)[0]) && made.get() == 1);
        let (wider, later) = (shared(16, &start), shared(8, &other));
        assert_eq!((wider[0].shape()[0], later[0].ptr_eq(&held[0]), made.get()), (16, false, 3));
        assert!(held[1].ptr_eq(&shared(8, &start)[1]) && made.get() == 3, "still remembered");
        drop(held);
        drop(shared(8, &start));
        assert_eq!(made.get(), 4, "nobody needed them");
    }
}
