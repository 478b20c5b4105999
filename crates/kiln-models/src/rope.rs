//! What a configuration says of rotary embedding.

use kiln::nn::{Rotary, RotaryScaling};

use crate::config::Config;
use crate::error::Result;

/// The rotary embedding of heads of `width` channels, in layers of a kind (`full_attention` or
/// `sliding_attention`), as `transformers` of versions 4 and 5 write it.
///
/// # Errors
/// Entries that are wrong, or a way of scaling that is not known.
pub(crate) fn rotary(config: &Config, width: usize, kind: &str) -> Result<Rotary> {
    let all = config.section("rope_parameters")?;
    let of_kind = all.as_ref().map(|all| all.section(kind)).transpose()?.flatten();
    let parameters = of_kind.or(all);
    let scaling = parameters.clone().map_or_else(|| config.section("rope_scaling"), |own| Ok(Some(own)))?;
    let own_base = parameters.map(|own| own.maybe_number("rope_theta")).transpose()?.flatten();
    let base = own_base.map_or_else(|| config.number_or("rope_theta", 1e4), Ok)?;
    if !(base.is_finite() && base > 0.0) {
        return Err(config.wrong("rope_theta", "a positive number", base));
    }
    let scaling = scaling.map_or(Ok(RotaryScaling::None), |own| read(config, &own))?;
    let interleaved = config.flag_or("rope_interleaved", false)?;
    let rotary = Rotary::from(base).scaling(scaling).interleaved(interleaved);
    let share = config.number_or("partial_rotary_factor", 1.0)?;
    Ok(if share < 1.0 { rotary.width((width as f64 * share) as usize) } else { rotary })
}

fn read(config: &Config, own: &Config) -> Result<RotaryScaling> {
    let kind = own.text_or("rope_type", &own.text_or("type", "default")?)?;
    let factor = own.number_or("factor", 1.0)?;
    let original = || -> Result<f64> {
        let trained = own.maybe_count("original_max_position_embeddings")?;
        Ok(trained.map_or_else(|| config.count("max_position_embeddings"), Ok)? as f64)
    };
    match kind.as_str() {
        "default" => Ok(RotaryScaling::None),
        "linear" => Ok(RotaryScaling::Linear { factor }),
        "llama3" => Ok(RotaryScaling::Llama3 {
            factor,
            low: own.number_or("low_freq_factor", 1.0)?,
            high: own.number_or("high_freq_factor", 4.0)?,
            original: original()?,
        }),
        "yarn" => Ok(RotaryScaling::Yarn {
            factor,
            fast: own.number_or("beta_fast", 32.0)?,
            slow: own.number_or("beta_slow", 1.0)?,
            original: original()?,
        }),
        other => Err(own.wrong("rope_type", "default, linear, llama3 or yarn", other)),
    }
}
