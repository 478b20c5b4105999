//! What distinguishes the U-Nets of diffusers.

use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Result;
use crate::waves::Waves;

/// What stands between the blocks of convolutions of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    /// Attention among pixels.
    Attention,
    /// Transformers, which look at a context too.
    Transformers,
}

/// The shape of a [`UNet2d`](crate::UNet2d).
#[derive(Clone, Debug)]
pub(super) struct UNet2dConfig {
    pub inputs: usize,
    pub outputs: usize,
    /// Channels by level, the finest first.
    pub widths: Vec<usize>,
    /// Blocks of convolutions on a level's way down; one more is on the way back.
    pub blocks: usize,
    pub groups: usize,
    pub eps: f64,
    /// On the way down, the finest level first.
    pub down: Vec<Between>,
    /// On the way back, the coarsest level first.
    pub up: Vec<Between>,
    pub mid: Between,
    /// Heads of attention by level.
    pub heads: Vec<usize>,
    /// Layers of transformers by level.
    pub layers: Vec<usize>,
    /// Channels of the context.
    pub context: usize,
    /// Whether images are from 0 to 1.
    pub centered: bool,
    /// Whether levels are halved with padding at the right and at the bottom only.
    pub one_sided: bool,
    pub waves: Waves,
    pub added: Option<Added>,
}

/// What SDXL is told beside the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    /// Waves of each number.
    pub waves: usize,
    /// Channels of the numbers' waves and of the text's vector.
    pub inputs: usize,
}

impl UNet2dConfig {
    /// Reads a configuration of `UNet2DModel` or `UNet2DConditionModel`.
    ///
    /// # Errors
    /// An entry that is missing or wrong, another kind of model, or what is not computed here.
    pub fn read(config: &Config) -> Result<UNet2dConfig> {
        let mid = match config.text("_class_name")?.as_str() {
            "UNet2DModel" => Between::Attention,
            "UNet2DConditionModel" => Between::Transformers,
            other => return Err(config.wrong("_class_name", "UNet2DModel or UNet2DConditionModel", other)),
        };
        usual(mid).iter().try_for_each(|(key, value)| config.check_usual(key, value))?;
        let widths = config.counts("block_out_channels")?.unwrap_or_default();
        let levels = config.few("block_out_channels", widths.len())?;
        let sides = |key: &str| kinds(config, key, mid, levels);
        let (down, up) = (sides("down_block_types")?, sides("up_block_types")?);
        let attends = |level: usize| {
            let both = [down[level], up[levels - 1 - level]];
            level + 1 == levels || both.contains(&Between::Attention)
        };
        let blocks = config.layers_or("layers_per_block", 2)?;
        let layers = by_level(config, "transformer_layers_per_block", 1, levels)?;
        let most = layers.iter().copied().max().unwrap_or(1);
        config.few("layers_per_block", levels.saturating_mul(blocks).saturating_mul(most))?;
        let padding = config.count_or("downsample_padding", 1)?;
        if padding > 1 {
            return Err(config.wrong("downsample_padding", "0 or 1", padding));
        }
        Ok(UNet2dConfig {
            inputs: config.count("in_channels")?,
            outputs: config.count("out_channels")?,
            blocks,
            groups: config.count_or("norm_num_groups", 32)?,
            eps: config.number_or("norm_eps", 1e-5)?,
            heads: heads(config, mid, &widths, attends)?,
            down,
            up,
            mid,
            layers,
            context: config.count_or("cross_attention_dim", 1280)?,
            centered: config.flag_or("center_input_sample", false)?,
            one_sided: padding == 0,
            waves: waves(config, widths[0])?,
            added: added(config)?,
            widths,
        })
    }
}

/// What entries must say, if they are there: other things are not computed.
fn usual(mid: Between) -> Vec<(&'static str, Value)> {
    let mid = if mid == Between::Attention { "UNetMidBlock2D" } else { "UNetMidBlock2DCrossAttn" };
    let nothing = [
        "time_embedding_dim",
        "attn_norm_num_groups",
        "class_embed_type",
        "num_class_embeds",
        "encoder_hid_dim",
        "encoder_hid_dim_type",
        "time_cond_proj_dim",
        "time_embedding_act_fn",
        "timestep_post_act",
        "cross_attention_norm",
        "mid_block_only_cross_attention",
        "reverse_transformer_layers_per_block",
    ];
    let others = [
        ("mid_block_type", json!(mid)),
        ("dropout", json!(0)),
        ("act_fn", json!("silu")),
        ("time_embedding_type", json!("positional")),
        ("resnet_time_scale_shift", json!("default")),
        ("downsample_type", json!("conv")),
        ("upsample_type", json!("conv")),
        ("attention_type", json!("default")),
        ("add_attention", json!(true)),
        ("dual_cross_attention", json!(false)),
        ("only_cross_attention", json!(false)),
        ("resnet_skip_time_act", json!(false)),
        ("class_embeddings_concat", json!(false)),
        ("mid_block_scale_factor", json!(1)),
        ("resnet_out_scale_factor", json!(1)),
        ("conv_in_kernel", json!(3)),
        ("conv_out_kernel", json!(3)),
    ];
    nothing.into_iter().map(|key| (key, Value::Null)).chain(others).collect()
}

fn kinds(config: &Config, key: &str, mid: Between, levels: usize) -> Result<Vec<Between>> {
    let names = config.texts(key)?.unwrap_or_default();
    if names.len() != levels {
        return Err(config.wrong(key, format!("{levels} of them"), names.len()));
    }
    let kind = |name: &String| match (name.as_str(), mid) {
        ("DownBlock2D" | "UpBlock2D", _) => Ok(Between::Nothing),
        ("AttnDownBlock2D" | "AttnUpBlock2D", Between::Attention) => Ok(Between::Attention),
        ("CrossAttnDownBlock2D" | "CrossAttnUpBlock2D", Between::Transformers) => Ok(Between::Transformers),
        _ => Err(config.wrong(key, "blocks without attention or with that of the model's class", name)),
    };
    names.iter().map(kind).collect()
}

/// Heads by level. One class says how wide heads are, the other how many there are, under the same name.
fn heads(
    config: &Config,
    mid: Between,
    widths: &[usize],
    attends: impl Fn(usize) -> bool,
) -> Result<Vec<usize>> {
    let key = "attention_head_dim";
    if mid == Between::Transformers {
        let given = config.has("num_attention_heads");
        let key = if given { "num_attention_heads" } else { key };
        return by_level(config, key, 8, widths.len());
    }
    if config.is_null(key) {
        return Ok(vec![1; widths.len()]);
    }
    let each = config.count_or(key, 8)?;
    let heads = |(level, &width): (usize, &usize)| {
        let whole = width.checked_div(each).filter(|_| width.is_multiple_of(each) || !attends(level));
        whole.ok_or_else(|| config.wrong(key, format!("a divisor of {width}"), each))
    };
    widths.iter().enumerate().map(heads).collect()
}

/// A count by level, each from 1: a list, or one for all.
fn by_level(config: &Config, key: &str, other: usize, levels: usize) -> Result<Vec<usize>> {
    let counts = match config.counts(key) {
        Ok(Some(counts)) => counts,
        Ok(None) => vec![other; levels],
        Err(_) => vec![config.count(key)?; levels],
    };
    if counts.len() != levels {
        return Err(config.wrong(key, format!("{levels} of them"), counts.len()));
    }
    counts.into_iter().map(|count| config.few(key, count)).collect()
}

fn waves(config: &Config, count: usize) -> Result<Waves> {
    let shift = config.number_or("freq_shift", 0.0)?;
    if shift >= (count / 2) as f64 {
        return Err(config.wrong("freq_shift", format!("less than half of {count} waves"), shift));
    }
    Ok(Waves { flipped: config.flag_or("flip_sin_to_cos", true)?, shift })
}

fn added(config: &Config) -> Result<Option<Added>> {
    match config.text_or("addition_embed_type", "")?.as_str() {
        "" => Ok(None),
        "text_time" => Ok(Some(Added {
            waves: config.count("addition_time_embed_dim")?,
            inputs: config.count("projection_class_embeddings_input_dim")?,
        })),
        other => Err(config.wrong("addition_embed_type", "text_time", other)),
    }
}
