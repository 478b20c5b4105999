//! A graph's depth costs no stack: two hundred thousand operations in a row,
//! on a thread with half the stack of an ordinary one.

use kiln::plan::context::{Context, with_context};
use kiln::prelude::*;

const LENGTH: usize = 200_000;

fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(body).expect("a thread");
    thread.join().expect("no panic");
}

fn start() -> Tensor {
    Tensor::from_slice(&[0.5f32, 0.25, 0.0], [3], ())
}

/// `x + a + b + a + ...`, `LENGTH` operations long; `a` and `b` are data.
fn chain() -> Tensor {
    let steps = [[1.0f32, 2.0, 3.0], [2.0, 2.0, 2.0]].map(|data| Tensor::from_slice(&data, [3], ()));
    (0..LENGTH).fold(start(), |sum, i| sum + &steps[i % 2])
}

/// Each value read twice by the next, and reversed on the way.
fn braid() -> Tensor {
    (0..LENGTH / 20).fold(start(), |x, _| (&x * 0.5 + &x.flip(0) * 0.5) + 1.0)
}

fn realized(tensor: &Tensor) -> Vec<f32> {
    with_context(&Context::new(), || tensor.to_vec().expect("it runs"))
}

#[test]
fn a_long_chain_is_realized_and_dropped() {
    on_a_small_stack(|| {
        let sum = chain();
        assert_eq!(realized(&sum), [300_000.5, 400_000.25, 500_000.0]);
    });
}

#[test]
fn a_long_chain_is_dropped_unrealized() {
    on_a_small_stack(|| drop(chain()));
}

#[test]
fn what_lies_below_a_value_in_use_is_dropped_when_that_is_realized() {
    on_a_small_stack(|| {
        let sum = chain();
        let twice = &sum * 2.0;
        assert_eq!(realized(&sum)[0], 300_000.5);
        assert_eq!(realized(&twice)[0], 600_001.0);
    });
}

#[test]
fn a_long_braid_is_realized_and_dropped() {
    on_a_small_stack(|| {
        let braid = braid();
        assert_eq!(realized(&braid), [10_000.25, 10_000.25, 10_000.25]);
    });
}

#[test]
fn a_long_braid_is_dropped_unrealized() {
    on_a_small_stack(|| drop(braid()));
}
