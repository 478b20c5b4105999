//! Normalizations and distances.

use kiln::Shape;
use kiln::opts::PairwiseDistanceOpts;
use kiln::opts::{LocalResponseNormOpts, NormOpts, RunningNormOpts};

use super::super::call::{Call, Outcome};
use super::{Entry, entry, one, with};

/// Normalizations and distances.
pub const NORMS: &[Entry] = &[
    entry("nn.functional.layer_norm", "input normalized_shape weight bias eps", |c| {
        one(c.tensor("input")?.layer_norm(shape(c)?, opts(c)?))
    }),
    entry("native_layer_norm", "input normalized_shape weight bias eps", |c| {
        let (result, mean, rstd) = c.tensor("input")?.native_layer_norm(shape(c)?, opts(c)?);
        Ok(vec![result, mean, rstd])
    }),
    entry("nn.functional.rms_norm", "input normalized_shape weight eps", |c| {
        one(c.tensor("input")?.rms_norm(shape(c)?, opts(c)?))
    }),
    entry("nn.functional.group_norm", "input num_groups weight bias eps", |c| {
        one(c.tensor("input")?.group_norm(c.size("num_groups")?, opts(c)?))
    }),
    entry(
        "nn.functional.batch_norm",
        "input running_mean running_var weight bias training momentum eps",
        |c| {
            let own = c.is("training")?;
            one(c.tensor("input")?.batch_norm(running_opts(c, own)?))
        },
    ),
    entry(
        "nn.functional.instance_norm",
        "input running_mean running_var weight bias use_input_stats momentum eps",
        |c| {
            let own = c.opt_flag("use_input_stats")?.unwrap_or(true);
            one(c.tensor("input")?.instance_norm(running_opts(c, own)?))
        },
    ),
    entry("nn.functional.local_response_norm", "input size alpha beta k", |c| {
        let usual = LocalResponseNormOpts::default();
        let opts = LocalResponseNormOpts::default()
            .alpha(c.opt_float("alpha")?.unwrap_or(usual.alpha))
            .beta(c.opt_float("beta")?.unwrap_or(usual.beta))
            .k(c.opt_float("k")?.unwrap_or(usual.k));
        one(c.tensor("input")?.local_response_norm(c.size("size")?, opts))
    }),
    entry("nn.functional.normalize", "input p dim eps", |c| {
        let (p, eps) = (c.opt_float("p")?.unwrap_or(2.0), c.opt_float("eps")?.unwrap_or(1e-12));
        one(c.tensor("input")?.normalize(p, c.opt_int("dim")?.unwrap_or(1), eps))
    }),
    entry("cdist", "x1 x2 p compute_mode", |c| {
        // How it is computed, not what.
        c.opt_text("compute_mode")?;
        one(c.tensor("x1")?.cdist(&c.tensor("x2")?, c.opt_float("p")?.unwrap_or(2.0)))
    }),
    entry("nn.functional.pairwise_distance", "x1 x2 p eps keepdim", |c| {
        let mut opts = PairwiseDistanceOpts::default().keepdim(c.is("keepdim")?);
        opts = with(opts, c.opt_float("p")?, |opts, p| opts.p(p));
        opts = with(opts, c.opt_float("eps")?, |opts, eps| opts.eps(eps));
        one(c.tensor("x1")?.pairwise_distance(&c.tensor("x2")?, opts))
    }),
    entry("nn.functional.cosine_similarity", "x1 x2 dim eps", |c| {
        let (dim, eps) = (c.opt_int("dim")?.unwrap_or(1), c.opt_float("eps")?.unwrap_or(1e-8));
        one(c.tensor("x1")?.cosine_similarity(&c.tensor("x2")?, dim, eps))
    }),
];

fn shape(c: &Call) -> Outcome<Shape> {
    Ok(Shape::new(&c.sizes("normalized_shape")?))
}

fn opts(c: &Call) -> Outcome<NormOpts> {
    let mut opts = NormOpts::default();
    opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
    opts = with(opts, c.opt_tensor("bias")?, |opts, bias| opts.bias(&bias));
    opts = with(opts, c.opt_float("eps")?, |opts, eps| opts.eps(eps));
    Ok(opts)
}

/// The momentum changes the running statistics, which are not a result here.
fn running_opts(c: &Call, own: bool) -> Outcome<RunningNormOpts> {
    c.opt_float("momentum")?;
    let (mean, var) = (c.opt_tensor("running_mean")?, c.opt_tensor("running_var")?);
    let mut opts = match (mean, var) {
        (Some(mean), Some(var)) if !own => RunningNormOpts::running(&mean, &var),
        _ => RunningNormOpts::training(),
    };
    opts = with(opts, c.opt_tensor("weight")?, |opts, weight| opts.weight(&weight));
    opts = with(opts, c.opt_tensor("bias")?, |opts, bias| opts.bias(&bias));
    opts = with(opts, c.opt_float("eps")?, |opts, eps| opts.eps(eps));
    Ok(opts)
}
