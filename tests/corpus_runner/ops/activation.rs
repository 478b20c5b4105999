//! Activations, softmax and attention.

use kiln::Scalar;
use kiln::opts::AttentionOpts;
use kiln::opts::CtcLossOpts;
use kiln::opts::Reduction;
use kiln::opts::{HeadProjections, MultiHeadOpts};

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, Stop, unsupported};
use super::{Entry, entry, one, pair, with};

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

/// Attention with several heads, and softmax's temporal kin.
pub const SEQUENCES: &[Entry] = &[
    entry(
        "nn.functional.multi_head_attention_forward",
        "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn \
         dropout_p out_proj_weight out_proj_bias training key_padding_mask need_weights attn_mask \
         use_separate_proj_weight q_proj_weight k_proj_weight v_proj_weight static_k static_v \
         average_attn_weights is_causal",
        multi_head,
    ),
    entry(
        "nn.functional.ctc_loss",
        "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
        ctc_loss,
    ),
];

fn multi_head(c: &Call) -> Outcome {
    let off = |arg: &Arg| matches!(arg, Arg::Number(Scalar::Bool(false)));
    c.ignore("use_separate_proj_weight", off)?;
    c.ignore("is_causal", off)?;
    if c.opt_float("dropout_p")?.unwrap_or(0.0) != 0.0 && c.opt_flag("training")?.unwrap_or(true) {
        return unsupported("dropout_p", "other than 0");
    }
    c.opt_flag("training")?;
    c.opt_int("embed_dim_to_check")?;
    let projections = HeadProjections {
        input_weight: c.tensor("in_proj_weight")?,
        input_bias: c.opt_tensor("in_proj_bias")?,
        output_weight: c.tensor("out_proj_weight")?,
        output_bias: c.opt_tensor("out_proj_bias")?,
    };
    let opts = MultiHeadOpts::default().add_zero_attn(c.is("add_zero_attn")?);
    let opts = with(opts, c.opt_tensor("bias_k")?, |opts, bias| opts.key_bias(&bias));
    let opts = with(opts, c.opt_tensor("bias_v")?, |opts, bias| opts.value_bias(&bias));
    let opts = with(opts, c.opt_tensor("key_padding_mask")?, |opts, mask| opts.key_padding_mask(&mask));
    let opts = with(opts, c.opt_tensor("attn_mask")?, |opts, mask| opts.mask(&mask));
    let opts = with(opts, c.opt_flag("average_attn_weights")?, MultiHeadOpts::average_weights);
    let weights_wanted = c.opt_flag("need_weights")?.unwrap_or(true);
    let opts = opts.need_weights(weights_wanted);
    let (key, value, heads) = (c.tensor("key")?, c.tensor("value")?, c.size("num_heads")?);
    let (result, weights) =
        c.tensor("query")?.multi_head_attention_forward(&key, &value, heads, &projections, opts);
    if weights_wanted { pair((result, weights)) } else { one(result) }
}

fn ctc_loss(c: &Call) -> Outcome {
    let reduction = c.opt_text("reduction")?.map_or(Ok(Reduction::Mean), |name| name.parse())?;
    let opts = CtcLossOpts::default().reduction(reduction).zero_infinity(c.is("zero_infinity")?);
    let opts = with(opts, c.opt_int("blank")?, CtcLossOpts::blank);
    let lengths = [c.lengths("input_lengths")?, c.lengths("target_lengths")?];
    one(c.tensor("log_probs")?.ctc_loss(&c.tensor("targets")?, &lengths[0], &lengths[1], opts))
}

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
