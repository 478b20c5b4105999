//! Activations, softmax and attention.

use kiln::tensor::attention::AttentionOpts;

use super::super::call::{Call, Outcome, Stop, unsupported};
use super::{Entry, entry, one, with};

macro_rules! unary {
    ($($name:literal $method:ident;)*) => {
        &[$(entry($name, "self", |c| one(c.tensor("self")?.$method()))),*]
    };
}

/// Activations without options.
pub const PLAIN: &[Entry] = unary! {
    "nn.functional.relu" relu;
    "nn.functional.relu6" relu6;
    "nn.functional.selu" selu;
    "nn.functional.silu" silu;
    "nn.functional.mish" mish;
    "nn.functional.hardswish" hardswish;
    "nn.functional.hardsigmoid" hardsigmoid;
    "nn.functional.softsign" softsign;
    "nn.functional.tanhshrink" tanhshrink;
    "nn.functional.logsigmoid" logsigmoid;
};

/// Activations with options, softmax, attention.
pub const WITH_OPTIONS: &[Entry] = &[
    entry("nn.functional.gelu", "self approximate", |c| {
        let x = c.tensor("self")?;
        match c.opt_text("approximate")?.as_deref() {
            None | Some("none") => one(x.gelu()),
            Some("tanh") => one(x.gelu_tanh()),
            Some(other) => Err(Stop::Inexpressible(format!("gelu or gelu_tanh, not {other}"))),
        }
    }),
    entry("nn.functional.leaky_relu", "self negative_slope", |c| {
        one(c.tensor("self")?.leaky_relu(c.opt_float("negative_slope")?.unwrap_or(0.01)))
    }),
    entry("nn.functional.prelu", "self weight", |c| one(c.tensor("self")?.prelu(&c.tensor("weight")?))),
    entry("nn.functional.elu", "self alpha", |c| {
        one(c.tensor("self")?.elu(c.opt_float("alpha")?.unwrap_or(1.0)))
    }),
    entry("nn.functional.celu", "self alpha", |c| {
        one(c.tensor("self")?.celu(c.opt_float("alpha")?.unwrap_or(1.0)))
    }),
    entry("nn.functional.hardtanh", "self min_val max_val", |c| {
        let (low, high) = (c.opt_float("min_val")?.unwrap_or(-1.0), c.opt_float("max_val")?.unwrap_or(1.0));
        one(c.tensor("self")?.hardtanh(low, high))
    }),
    entry("nn.functional.softplus", "self beta threshold", |c| {
        let beta = c.opt_float("beta")?.unwrap_or(1.0);
        one(c.tensor("self")?.softplus(beta, c.opt_float("threshold")?.unwrap_or(20.0)))
    }),
    entry("nn.functional.hardshrink", "self lambd", |c| {
        one(c.tensor("self")?.hardshrink(c.opt_float("lambd")?.unwrap_or(0.5)))
    }),
    entry("nn.functional.softshrink", "self lambd", |c| {
        one(c.tensor("self")?.softshrink(c.opt_float("lambd")?.unwrap_or(0.5)))
    }),
    entry("nn.functional.threshold", "self threshold value", |c| {
        one(c.tensor("self")?.threshold(c.float("threshold")?, c.float("value")?))
    }),
    entry("nn.functional.glu", "self dim", |c| one(c.tensor("self")?.glu(c.opt_int("dim")?.unwrap_or(-1)))),
    entry("softmax", "self dim dtype", |c| one(c.converted()?.softmax(c.int("dim")?))),
    entry("log_softmax", "self dim dtype", |c| one(c.converted()?.log_softmax(c.int("dim")?))),
    entry("nn.functional.softmin", "self dim dtype", |c| one(c.converted()?.softmin(c.int("dim")?))),
    entry(
        "nn.functional.scaled_dot_product_attention",
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
        attention,
    ),
];

fn attention(c: &Call) -> Outcome {
    if c.opt_float("dropout_p")?.unwrap_or(0.0) != 0.0 {
        return unsupported("dropout_p", "other than 0");
    }
    let opts = AttentionOpts::default().causal(c.is("is_causal")?).enable_gqa(c.is("enable_gqa")?);
    let opts = with(opts, c.opt_float("scale")?, AttentionOpts::scale);
    let opts = with(opts, c.opt_tensor("attn_mask")?, |opts, mask| opts.mask(&mask));
    let (query, key, value) = (c.tensor("query")?, c.tensor("key")?, c.tensor("value")?);
    one(query.scaled_dot_product_attention(&key, &value, opts))
}
