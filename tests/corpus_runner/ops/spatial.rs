//! Convolutions, pooling and patches of images.

use kiln::opts::Im2colOpts;
use kiln::opts::{AvgPoolOpts, MaxPoolOpts};
use kiln::opts::{ConvOpts, ConvTransposeOpts, Padding};
use kiln::opts::{GridSampleOpts, SampleMode, SamplePadding};
use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::tensor::Tensor;
use kiln::tensor::adaptive::OutputSizes;

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, integer, unsupported};
use super::{Entry, entry, one, pair, with};

const CONV: &str = "input weight bias stride padding dilation groups";
const TRANSPOSED: &str = "input weight bias stride padding output_padding groups dilation";

/// Convolutions.
pub const CONVOLUTIONS: &[Entry] = &[
    entry("nn.functional.conv1d", CONV, |c| conv(c, Tensor::conv1d)),
    entry("nn.functional.conv2d", CONV, |c| conv(c, Tensor::conv2d)),
    entry("nn.functional.conv3d", CONV, |c| conv(c, Tensor::conv3d)),
    entry("nn.functional.conv_transpose1d", TRANSPOSED, |c| transposed(c, Tensor::conv_transpose1d)),
    entry("nn.functional.conv_transpose2d", TRANSPOSED, |c| transposed(c, Tensor::conv_transpose2d)),
    entry("nn.functional.conv_transpose3d", TRANSPOSED, |c| transposed(c, Tensor::conv_transpose3d)),
];

type Conv<Opts> = fn(&Tensor, &Tensor, Option<&Tensor>, Opts) -> Tensor;

fn conv(c: &Call, f: Conv<ConvOpts>) -> Outcome {
    let mut opts = ConvOpts::default();
    match c.take("padding") {
        None => {}
        Some(Arg::Text(name)) if name == "same" => opts = opts.padding(Padding::Same),
        Some(Arg::Text(name)) if name == "valid" => opts = opts.padding(Padding::Valid),
        Some(sizes) => {
            c.put("padding", sizes);
            opts = opts.padding(c.ints("padding")?);
        }
    }
    opts = with(opts, c.opt_ints("stride")?, |opts, stride| opts.stride(stride));
    opts = with(opts, c.opt_ints("dilation")?, |opts, dilation| opts.dilation(dilation));
    if c.has("groups") {
        opts = opts.groups(c.size("groups")?);
    }
    one(f(&c.tensor("input")?, &c.tensor("weight")?, c.opt_tensor("bias")?.as_ref(), opts))
}

fn transposed(c: &Call, f: Conv<ConvTransposeOpts>) -> Outcome {
    let mut opts = ConvTransposeOpts::default();
    opts = with(opts, c.opt_ints("stride")?, |opts, stride| opts.stride(stride));
    opts = with(opts, c.opt_ints("padding")?, |opts, padding| opts.padding(padding));
    opts = with(opts, c.opt_ints("output_padding")?, |opts, padding| opts.output_padding(padding));
    opts = with(opts, c.opt_ints("dilation")?, |opts, dilation| opts.dilation(dilation));
    if c.has("groups") {
        opts = opts.groups(c.size("groups")?);
    }
    one(f(&c.tensor("input")?, &c.tensor("weight")?, c.opt_tensor("bias")?.as_ref(), opts))
}

const AVG_POOL: &str = "self kernel_size stride padding ceil_mode count_include_pad divisor_override";
const MAX_POOL: &str = "self kernel_size stride padding dilation ceil_mode return_indices";

/// Pooling, and patches of images.
pub const POOLS: &[Entry] = &[
    entry("nn.functional.avg_pool1d", AVG_POOL, |c| avg_pool(c, Tensor::avg_pool1d)),
    entry("nn.functional.avg_pool2d", AVG_POOL, |c| avg_pool(c, Tensor::avg_pool2d)),
    entry("nn.functional.avg_pool3d", AVG_POOL, |c| avg_pool(c, Tensor::avg_pool3d)),
    entry("nn.functional.max_pool1d", MAX_POOL, |c| {
        max_pool(c, Tensor::max_pool1d, Tensor::max_pool1d_with_indices)
    }),
    entry("nn.functional.max_pool2d", MAX_POOL, |c| {
        max_pool(c, Tensor::max_pool2d, Tensor::max_pool2d_with_indices)
    }),
    entry("nn.functional.max_pool3d", MAX_POOL, |c| {
        max_pool(c, Tensor::max_pool3d, Tensor::max_pool3d_with_indices)
    }),
    entry("nn.functional.adaptive_avg_pool1d", "self output_size", |c| {
        one(c.tensor("self")?.adaptive_avg_pool1d(output_sizes(c)?))
    }),
    entry("nn.functional.adaptive_avg_pool2d", "self output_size", |c| {
        one(c.tensor("self")?.adaptive_avg_pool2d(output_sizes(c)?))
    }),
    entry("nn.functional.adaptive_max_pool2d", "self output_size return_indices", |c| {
        let (x, sizes) = (c.tensor("self")?, output_sizes(c)?);
        if c.is("return_indices")? {
            pair(x.adaptive_max_pool2d_with_indices(sizes))
        } else {
            one(x.adaptive_max_pool2d(sizes))
        }
    }),
    entry("nn.functional.unfold", "self kernel_size dilation padding stride", |c| {
        let mut opts = Im2colOpts::default();
        opts = with(opts, c.opt_ints("dilation")?, |opts, dilation| opts.dilation(dilation));
        opts = with(opts, c.opt_ints("padding")?, |opts, padding| opts.padding(padding));
        opts = with(opts, c.opt_ints("stride")?, |opts, stride| opts.stride(stride));
        one(c.tensor("self")?.im2col(c.ints("kernel_size")?, opts))
    }),
];

type Pool<Opts, Result = Tensor> = fn(&Tensor, Vec<i64>, Opts) -> Result;

fn avg_pool(c: &Call, f: Pool<AvgPoolOpts>) -> Outcome {
    let mut opts = AvgPoolOpts::default().ceil_mode(c.is("ceil_mode")?);
    opts = opts.count_include_pad(c.opt_flag("count_include_pad")?.unwrap_or(true));
    if let Some(stride) = c.opt_ints("stride")?.filter(|stride| !stride.is_empty()) {
        opts = opts.stride(stride);
    }
    opts = with(opts, c.opt_ints("padding")?, |opts, padding| opts.padding(padding));
    opts = with(opts, c.opt_int("divisor_override")?, |opts, divisor| opts.divisor_override(divisor));
    one(f(&c.tensor("self")?, c.ints("kernel_size")?, opts))
}

fn max_pool(c: &Call, plain: Pool<MaxPoolOpts>, indexed: Pool<MaxPoolOpts, (Tensor, Tensor)>) -> Outcome {
    let mut opts = MaxPoolOpts::default().ceil_mode(c.is("ceil_mode")?);
    if let Some(stride) = c.opt_ints("stride")?.filter(|stride| !stride.is_empty()) {
        opts = opts.stride(stride);
    }
    opts = with(opts, c.opt_ints("padding")?, |opts, padding| opts.padding(padding));
    opts = with(opts, c.opt_ints("dilation")?, |opts, dilation| opts.dilation(dilation));
    let (x, kernel) = (c.tensor("self")?, c.ints("kernel_size")?);
    if c.is("return_indices")? { pair(indexed(&x, kernel, opts)) } else { one(plain(&x, kernel, opts)) }
}

/// `output_size`: a number, or one number or `None` per axis.
fn output_sizes(c: &Call) -> Outcome<OutputSizes> {
    match c.take("output_size") {
        Some(Arg::Number(size)) => Ok(OutputSizes::from(size.as_i64())),
        Some(Arg::List(sizes)) => Ok(OutputSizes::from(sizes.iter().map(integer).collect::<Vec<_>>())),
        other => unsupported("output_size", format!("{other:?}")),
    }
}

/// Resampling.
pub const RESAMPLING: &[Entry] = &[
    entry(
        "nn.functional.interpolate",
        "self size scale_factor mode align_corners recompute_scale_factor antialias",
        interpolate,
    ),
    entry("nn.functional.grid_sample", "self grid mode padding_mode align_corners", |c| {
        let mode = match c.opt_text("mode")?.as_deref() {
            None | Some("bilinear") => SampleMode::Bilinear,
            Some("nearest") => SampleMode::Nearest,
            Some("bicubic") => SampleMode::Bicubic,
            Some(other) => return unsupported("mode", other),
        };
        let padding = match c.opt_text("padding_mode")?.as_deref() {
            None | Some("zeros") => SamplePadding::Zeros,
            Some("border") => SamplePadding::Border,
            Some("reflection") => SamplePadding::Reflection,
            Some(other) => return unsupported("padding_mode", other),
        };
        let opts = GridSampleOpts::default().mode(mode).padding_mode(padding);
        let opts = opts.align_corners(c.is("align_corners")?);
        one(c.tensor("self")?.grid_sample(&c.tensor("grid")?, opts))
    }),
];

fn interpolate(c: &Call) -> Outcome {
    let mode = match c.opt_text("mode")?.as_deref() {
        None | Some("nearest") => InterpolateMode::Nearest,
        Some("nearest-exact") => InterpolateMode::NearestExact,
        Some("linear" | "bilinear" | "trilinear") => InterpolateMode::Linear,
        Some("bicubic") => InterpolateMode::Bicubic,
        Some("area") => InterpolateMode::Area,
        Some(other) => return unsupported("mode", other),
    };
    if c.is("antialias")? {
        return unsupported("antialias", true);
    }
    let opts = InterpolateOpts::default().mode(mode).align_corners(c.is("align_corners")?);
    let opts = opts.recompute_scale_factor(c.is("recompute_scale_factor")?);
    let opts = with(opts, c.opt_ints("size")?, |opts, size| opts.size(size));
    let opts = with(opts, c.opt_floats("scale_factor")?, |opts, factors| opts.scale_factor(factors));
    one(c.tensor("self")?.interpolate(opts))
}
