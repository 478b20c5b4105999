//! Losses.

use kiln::opts::{BinaryCrossEntropyOpts, CrossEntropyOpts, NllLossOpts};
use kiln::opts::{
    GaussianNllLossOpts, HuberLossOpts, KlDivOpts, PoissonNllLossOpts, Reduction, SmoothL1LossOpts,
};
use kiln::opts::{MarginOpts, MultiMarginLossOpts, TripletMarginLossOpts};
use kiln::tensor::Tensor;

use super::super::call::{Call, Outcome};
use super::{Entry, entry, one, with};

/// Losses of single elements: regression and distributions.
pub const REGRESSION: &[Entry] = &[
    entry("nn.functional.mse_loss", "self target reduction", |c| plain(c, Tensor::mse_loss)),
    entry("nn.functional.l1_loss", "self target reduction", |c| plain(c, Tensor::l1_loss)),
    entry("nn.functional.soft_margin_loss", "self target reduction", |c| plain(c, Tensor::soft_margin_loss)),
    entry("nn.functional.smooth_l1_loss", "self target reduction beta", |c| {
        let opts = SmoothL1LossOpts::default().reduction(reduction(c)?);
        let opts = with(opts, c.opt_float("beta")?, SmoothL1LossOpts::beta);
        one(c.tensor("self")?.smooth_l1_loss(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.huber_loss", "self target reduction delta", |c| {
        let opts = HuberLossOpts::default().reduction(reduction(c)?);
        let opts = with(opts, c.opt_float("delta")?, HuberLossOpts::delta);
        one(c.tensor("self")?.huber_loss(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.kl_div", "self target reduction log_target", |c| {
        let opts = KlDivOpts::default().reduction(reduction(c)?).log_target(c.is("log_target")?);
        one(c.tensor("self")?.kl_div(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.poisson_nll_loss", "self target log_input full eps reduction", |c| {
        let opts = PoissonNllLossOpts::default().reduction(reduction(c)?).full(c.is("full")?);
        let opts = with(opts, c.opt_flag("log_input")?, PoissonNllLossOpts::log_input);
        let opts = with(opts, c.opt_float("eps")?, PoissonNllLossOpts::eps);
        one(c.tensor("self")?.poisson_nll_loss(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.gaussian_nll_loss", "self target var full eps reduction", |c| {
        let opts = GaussianNllLossOpts::default().reduction(reduction(c)?).full(c.is("full")?);
        let opts = with(opts, c.opt_float("eps")?, GaussianNllLossOpts::eps);
        one(c.tensor("self")?.gaussian_nll_loss(&c.tensor("target")?, &c.tensor("var")?, opts))
    }),
];

fn reduction(c: &Call) -> Outcome<Reduction> {
    Ok(match c.opt_text("reduction")? {
        Some(name) => name.parse()?,
        None => Reduction::default(),
    })
}

fn plain(c: &Call, f: fn(&Tensor, &Tensor, Reduction) -> Tensor) -> Outcome {
    one(f(&c.tensor("self")?, &c.tensor("target")?, reduction(c)?))
}

/// Losses of classes.
pub const CLASSES: &[Entry] = &[
    entry("nn.functional.cross_entropy", "self target weight ignore_index reduction label_smoothing", |c| {
        let opts = CrossEntropyOpts::default().reduction(reduction(c)?);
        let opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
        let opts = with(opts, c.opt_int("ignore_index")?, CrossEntropyOpts::ignore_index);
        let opts = with(opts, c.opt_float("label_smoothing")?, CrossEntropyOpts::label_smoothing);
        one(c.tensor("self")?.cross_entropy(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.nll_loss", "self target weight ignore_index reduction", |c| {
        let opts = NllLossOpts::default().reduction(reduction(c)?);
        let opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
        let opts = with(opts, c.opt_int("ignore_index")?, NllLossOpts::ignore_index);
        one(c.tensor("self")?.nll_loss(&c.tensor("target")?, opts))
    }),
    entry("nn.functional.binary_cross_entropy", "self target weight reduction", |c| {
        binary(c, Tensor::binary_cross_entropy)
    }),
    entry("nn.functional.binary_cross_entropy_with_logits", "self target weight reduction pos_weight", |c| {
        binary(c, Tensor::binary_cross_entropy_with_logits)
    }),
];

fn binary(c: &Call, f: fn(&Tensor, &Tensor, BinaryCrossEntropyOpts) -> Tensor) -> Outcome {
    let opts = BinaryCrossEntropyOpts::default().reduction(reduction(c)?);
    let opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
    let opts = with(opts, c.opt_tensor("pos_weight")?, |opts, weight| opts.pos_weight(&weight));
    one(f(&c.tensor("self")?, &c.tensor("target")?, opts))
}

/// Losses with a margin.
pub const MARGINS: &[Entry] = &[
    entry("nn.functional.hinge_embedding_loss", "self target margin reduction", |c| {
        one(c.tensor("self")?.hinge_embedding_loss(c.tensor("target")?, margin(c)?))
    }),
    entry("nn.functional.margin_ranking_loss", "self other target margin reduction", |c| {
        one(c.tensor("self")?.margin_ranking_loss(&c.tensor("other")?, c.tensor("target")?, margin(c)?))
    }),
    entry("nn.functional.cosine_embedding_loss", "self other target margin reduction", |c| {
        one(c.tensor("self")?.cosine_embedding_loss(&c.tensor("other")?, c.tensor("target")?, margin(c)?))
    }),
    entry("nn.functional.triplet_margin_loss", "self positive negative margin p eps swap reduction", |c| {
        let opts = TripletMarginLossOpts::default().reduction(reduction(c)?).swap(c.is("swap")?);
        let opts = with(opts, c.opt_float("margin")?, TripletMarginLossOpts::margin);
        let opts = with(opts, c.opt_float("p")?, TripletMarginLossOpts::p);
        let opts = with(opts, c.opt_float("eps")?, TripletMarginLossOpts::eps);
        one(c.tensor("self")?.triplet_margin_loss(&c.tensor("positive")?, &c.tensor("negative")?, opts))
    }),
    entry("nn.functional.multi_margin_loss", "self target p margin weight reduction", |c| {
        let opts = MultiMarginLossOpts::default().reduction(reduction(c)?);
        let opts = with(opts, c.opt_int("p")?, MultiMarginLossOpts::p);
        let opts = with(opts, c.opt_float("margin")?, MultiMarginLossOpts::margin);
        let opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
        one(c.tensor("self")?.multi_margin_loss(&c.tensor("target")?, opts))
    }),
];

fn margin(c: &Call) -> Outcome<MarginOpts> {
    let opts = MarginOpts::default().reduction(reduction(c)?);
    Ok(with(opts, c.opt_float("margin")?, MarginOpts::margin))
}
