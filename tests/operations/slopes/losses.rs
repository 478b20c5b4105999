//! Losses.

use kiln::opts::{BinaryCrossEntropyOpts, CrossEntropyOpts, CtcLossOpts, GaussianNllLossOpts, HuberLossOpts};
use kiln::opts::{KlDivOpts, MarginOpts, MultiMarginLossOpts, NllLossOpts, PoissonNllLossOpts};
use kiln::opts::{SmoothL1LossOpts, TripletMarginLossOpts};
use kiln::prelude::*;

use super::{Input, Row, any, positive, within};

const X: Input = any(&[3, 4]);
const PART: Input = within(0.05, 0.95, &[3, 4]);

pub const LOSSES: &[Row] = &[
    ("mse_loss", &[X, X], |x| x[0].mse_loss(&x[1], Reduction::Mean)),
    ("l1_loss", &[X, X], |x| x[0].l1_loss(&x[1], Reduction::None)),
    ("smooth_l1_loss", &[X, X], |x| x[0].smooth_l1_loss(&x[1], SmoothL1LossOpts::default().beta(0.7))),
    ("huber_loss", &[X, X], |x| x[0].huber_loss(&x[1], HuberLossOpts::default().delta(0.7))),
    ("kl_div", &[X, PART], |x| x[0].kl_div(&x[1], KlDivOpts::default().reduction(Reduction::BatchMean))),
    ("kl_div of logarithms", &[X, X], |x| x[0].kl_div(&x[1], KlDivOpts::default().log_target(true))),
    ("poisson_nll_loss", &[X, positive(&[3, 4])], |x| {
        x[0].poisson_nll_loss(&x[1], PoissonNllLossOpts::default())
    }),
    ("poisson_nll_loss of rates", &[positive(&[3, 4]), within(1.5, 4.0, &[3, 4])], |x| {
        x[0].poisson_nll_loss(&x[1], PoissonNllLossOpts::default().log_input(false).full(true))
    }),
    ("gaussian_nll_loss", &[X, X, positive(&[3, 4])], |x| {
        x[0].gaussian_nll_loss(&x[1], &x[2], GaussianNllLossOpts::default().full(true))
    }),
    ("hinge_embedding_loss", &[X], |x| x[0].hinge_embedding_loss(signs(&[4]), MarginOpts::default())),
    ("margin_ranking_loss", &[any(&[4]), any(&[4])], |x| {
        x[0].margin_ranking_loss(&x[1], signs(&[4]), MarginOpts::default().margin(0.5))
    }),
    ("cosine_embedding_loss", &[X, X], |x| {
        x[0].cosine_embedding_loss(&x[1], signs(&[3]), MarginOpts::default().margin(-0.5))
    }),
    ("triplet_margin_loss", &[X, X, X], |x| {
        x[0].triplet_margin_loss(&x[1], &x[2], TripletMarginLossOpts::default().margin(5.0).swap(true))
    }),
    ("soft_margin_loss", &[X], |x| x[0].soft_margin_loss(&signs(&[3, 4]), Reduction::Mean)),
    ("multi_margin_loss", &[X, positive(&[4])], |x| {
        x[0].multi_margin_loss(&classes(), MultiMarginLossOpts::default().p(2).weight(&x[1]))
    }),
    ("multi_margin_loss of 1", &[X], |x| x[0].multi_margin_loss(&classes(), MultiMarginLossOpts::default())),
    ("nll_loss", &[X, positive(&[4])], |x| {
        x[0].nll_loss(&classes(), NllLossOpts::default().weight(&x[1]).ignore_index(0))
    }),
    ("cross_entropy", &[X, positive(&[4])], |x| {
        x[0].cross_entropy(&classes(), CrossEntropyOpts::default().weight(&x[1]).label_smoothing(0.2))
    }),
    ("cross_entropy to probabilities", &[X, PART], |x| {
        x[0].cross_entropy(&x[1], CrossEntropyOpts::default().reduction(Reduction::Sum))
    }),
    ("binary_cross_entropy", &[PART, PART], |x| {
        x[0].binary_cross_entropy(&x[1], BinaryCrossEntropyOpts::default())
    }),
    ("binary_cross_entropy_with_logits", &[X, PART, positive(&[4])], |x| {
        x[0].binary_cross_entropy_with_logits(&x[1], BinaryCrossEntropyOpts::default().pos_weight(&x[2]))
    }),
    ("ctc_loss", &[any(&[5, 2, 3])], |x| {
        let targets = Tensor::from([[1i64, 2], [2, 2]]);
        let (inputs, lengths) = (Tensor::from([5i64, 4]), Tensor::from([2i64, 2]));
        x[0].log_softmax(-1).ctc_loss(&targets, &inputs, &lengths, CtcLossOpts::default())
    }),
];

fn classes() -> Tensor {
    Tensor::from([2i64, 0, 3])
}

/// 1 and -1 in turn.
fn signs(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_vec((0..count).map(|i| 1.0 - 2.0 * (i % 2) as f64).collect(), shape, ())
}
