//! Whatever the library builds on the user's behalf, plans name the user's
//! lines.

use kiln::nn::{
    BatchNorm, Dropout, Layer, Linear, Lstm, ModuleExt, MultiheadAttention, Sequential,
    TransformerEncoderLayer, TransformerOpts,
};
use kiln::optim::clip_grad_norm;
use kiln::prelude::*;

/// Fails unless every kernel computes for lines of this file alone.
#[track_caller]
fn assert_lines(plan: &PlanReport) {
    assert!(!plan.kernels.is_empty());
    for kernel in &plan.kernels {
        for line in kernel.lines.iter().chain([&kernel.at]) {
            assert_eq!(line.file(), file!(), "{} at {line}\n{plan}", kernel.name);
        }
    }
}

fn model() -> Sequential {
    let opts = TransformerOpts::default().feed_forward(16).norm_first(true);
    Sequential::new()
        .push(Linear::new(6, 8, ()))
        .push(BatchNorm::new(5, ()))
        .then(Tensor::gelu)
        .push(TransformerEncoderLayer::new(8, 2, opts, ()))
        .push(Dropout::new(0.5))
        .push(MultiheadAttention::new(8, 2, Default::default(), ()))
}

#[test]
fn a_step_of_layers_names_the_users_lines() {
    let model = model();
    let x = Tensor::linspace(-1.0, 1.0, 2 * 5 * 6, ()).reshape([2, 5, 6]);
    let y = model.forward(&x);
    assert_lines(&y.plan().unwrap());
    let loss = y.square().mean(..);
    loss.backward().unwrap();
    let _norm = clip_grad_norm(&model.parameters(), 1.0).unwrap();
    assert_lines(&loss.plan().unwrap());
}

#[test]
fn repetitions_name_the_users_lines() {
    let lstm = Lstm::new(4, 3, 2, ());
    let (y, _) = lstm.forward(&Tensor::ones([5, 2, 4], ()), None);
    assert_lines(&y.plan().unwrap());
}

/// A layer of the user's own.
struct Scale;
kiln::module!(Scale {});
impl Layer for Scale {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * 3.0
    }
}

#[test]
fn a_users_layer_counts_as_the_line_that_called_the_model() {
    let model = Sequential::new().push(Scale);
    let x = Tensor::from([1.0f32, 2.0]);
    let (y, line) = (model.forward(&x), line!());
    assert_eq!(y.plan().unwrap().kernels[0].at.line(), line);
}
