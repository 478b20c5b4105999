//! Convolutions: what their options say, as kernels that slide.

use crate::ir::PadAxis;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::correlate::{Correlation, SpatialAxis, adjoint_kernel, grouped};
use crate::tensor::options::options;
use crate::tensor::spatial::{Sizes, batched, unbatched};

/// Padding of a convolution.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let (x, weight) = (Tensor::ones([1, 1, 5], ()), Tensor::ones([1, 1, 3], ()));
/// assert_eq!(x.conv1d(&weight, None, ConvOpts::default().padding(Padding::Same)).dims()?, [1, 1, 5]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Padding {
    /// Zeros on both sides of each axis.
    Each(Sizes),
    /// As many zeros as keep the extents at stride 1; an odd one goes last.
    Same,
    /// No padding.
    Valid,
}

impl<T: Into<Sizes>> From<T> for Padding {
    fn from(sizes: T) -> Padding {
        Padding::Each(sizes.into())
    }
}

options! {
    /// Options of convolutions; each size is one number or one per spatial axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, weight) = (Tensor::ones([1, 1, 5], ()), Tensor::ones([1, 1, 3], ()));
    /// let y = x.conv1d(&weight, None, ConvOpts::default().stride(2).padding(1));
    /// assert_eq!(y.dims()?, [1, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ConvOpts {
        /// Distance between windows (1).
        stride: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Padding (none).
        padding: Padding = Padding::Valid, impl Into<Padding> => Into::into;
        /// Distance between elements of a window (1).
        dilation: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Independent groups of channels (1).
        groups: usize = 1;
    }
}

options! {
    /// Options of transposed convolutions.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, weight) = (Tensor::ones([1, 1, 3], ()), Tensor::ones([1, 1, 2], ()));
    /// let y = x.conv_transpose1d(&weight, None, ConvTransposeOpts::default().stride(2));
    /// assert_eq!(y.dims()?, [1, 1, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ConvTransposeOpts {
        /// Distance between the places inputs go to (1).
        stride: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Elements cut off both sides of each axis of the result (0).
        padding: Sizes = 0.into(), impl Into<Sizes> => Into::into;
        /// Elements added after the last along each axis of the result (0).
        output_padding: Sizes = 0.into(), impl Into<Sizes> => Into::into;
        /// Distance between elements of the kernel (1).
        dilation: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Independent groups of channels (1).
        groups: usize = 1;
    }
}

macro_rules! convolutions {
    ($($conv:ident $transpose:ident $rank:literal $axes:literal $x:literal $weight:literal;)*) => {$(
        #[doc = concat!("Convolution over ", $axes, ": input `[n, c, ", $axes, "]` or without `n`,")]
        #[doc = concat!("`weight` `[out, c / groups, kernel of ", $axes, "]`, `bias` `[out]`.")]
        ///
        /// Invalid when ranks, types or channels do not fit, an option is out
        /// of range, or the kernel is larger than the padded input.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($conv), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let weight = Tensor::ones(", $weight, ", ());")]
        /// let opts = ConvOpts::default().padding(Padding::Same);
        #[doc = concat!("let y = x.", stringify!($conv), "(&weight, None, opts);")]
        /// assert_eq!((y.shape()[1], &y.shape()[2..]), (2, &x.shape()[2..]));
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $conv(&self, weight: &Tensor, bias: Option<&Tensor>, opts: ConvOpts) -> Tensor {
            let site = CallSite::here(stringify!($conv));
            let this: &Tensor = &site.autocast(self);
            let weight: &Tensor = &site.autocast(weight);
            finish(conv(site, $rank, this, weight, bias.map(|bias| site.autocast(bias)).as_deref(), &opts))
        }

        #[doc = concat!("Transposed convolution over ", $axes, ", the adjoint of [`Tensor::", stringify!($conv), "`]")]
        #[doc = concat!("in its input: `weight` is `[c, out / groups, kernel of ", $axes, "]`.")]
        ///
        /// Invalid in the same cases, and when the output padding reaches
        /// both the stride and the dilation.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($transpose), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let y = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let weight = Tensor::ones(", $weight, ", ());")]
        #[doc = concat!("let x = y.", stringify!($conv), "(&weight, None, ConvOpts::default());")]
        #[doc = concat!("let back = x.", stringify!($transpose), "(&weight, None, Default::default());")]
        /// assert_eq!(back.shape(), y.shape());
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $transpose(&self, weight: &Tensor, bias: Option<&Tensor>, opts: ConvTransposeOpts) -> Tensor {
            let site = CallSite::here(stringify!($transpose));
            let this: &Tensor = &site.autocast(self);
            let weight: &Tensor = &site.autocast(weight);
            finish(conv_transpose(site, $rank, this, weight, bias.map(|bias| site.autocast(bias)).as_deref(), &opts))
        }
    )*};
}

impl Tensor {
    convolutions! {
        conv1d conv_transpose1d 1 "l" "[1, 1, 4]" "[2, 1, 3]";
        conv2d conv_transpose2d 2 "h, w" "[1, 1, 4, 4]" "[2, 1, 3, 3]";
        conv3d conv_transpose3d 3 "d, h, w" "[1, 1, 4, 4, 4]" "[2, 1, 3, 3, 3]";
    }
}

fn conv(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    opts: &ConvOpts,
) -> Checked<Tensor> {
    let (x, lone) = batched(site, x, spatial)?;
    check_operands(site, spatial, &x, weight, bias, opts.groups)?;
    let (given, want) = (x.shape()[1], weight.shape()[1].saturating_mul(opts.groups));
    site.require(given == want, &[&x, weight], || {
        (format!("an input of {want} channels"), format!("{given}"))
    })?;
    let out = weight.shape()[0];
    check_bias(site, bias, out)?;
    let axes = conv_axes(site, &x, weight, opts)?;
    // Groups are an axis in front of the channels.
    let split = [&[out / opts.groups][..], &weight.shape()[1..]].concat();
    let kernel = grouped(site, weight, opts.groups, 0, &split);
    let y = Correlation { site, groups: opts.groups, axes }.apply(&x, &kernel)?;
    Ok(unbatched(site, &add_bias(site, &y, bias, spatial), lone))
}

/// What both directions ask of the operands.
fn check_operands(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    groups: usize,
) -> Checked<()> {
    let rank = weight.rank();
    site.require(rank == spatial + 2, &[x, weight], || {
        (format!("a weight of rank {}", spatial + 2), format!("rank {rank}"))
    })?;
    let found = bias.map_or(weight.dtype(), Tensor::dtype);
    let same = x.dtype() == weight.dtype() && x.dtype() == found;
    site.require(same, &[x, weight], || {
        (
            "input, weight and bias of one type".into(),
            format!("{}, {} and {found}", x.dtype(), weight.dtype()),
        )
    })?;
    let out = weight.shape()[0];
    site.require(groups > 0 && out.is_multiple_of(groups), &[x, weight], || {
        ("groups that divide the weight's first extent".into(), format!("{groups} groups and {out}"))
    })?;
    site.require(!weight.shape()[2..].contains(&0), &[x, weight], || {
        ("a kernel without extents of 0".into(), weight.shape().to_string())
    })
}

fn check_bias(site: CallSite, bias: Option<&Tensor>, out: usize) -> Checked<()> {
    match bias {
        Some(bias) => site.require(bias.shape()[..] == [out], &[bias], || {
            (format!("a bias of shape [{out}]"), bias.shape().to_string())
        }),
        None => Ok(()),
    }
}

fn conv_axes(site: CallSite, x: &Tensor, weight: &Tensor, opts: &ConvOpts) -> Checked<Vec<SpatialAxis>> {
    let spatial = weight.rank() - 2;
    let strides = opts.stride.resolve(site, "stride", spatial, 1, &[x, weight])?;
    let dilations = opts.dilation.resolve(site, "dilation", spatial, 1, &[x, weight])?;
    let mut axes: Vec<SpatialAxis> = (0..spatial)
        .map(|i| SpatialAxis {
            kernel: weight.shape()[i + 2],
            stride: strides[i],
            dilation: dilations[i],
            pad: PadAxis::default(),
        })
        .collect();
    match &opts.padding {
        Padding::Valid => {}
        Padding::Same => {
            site.require(strides.iter().all(|&s| s == 1), &[x, weight], || {
                ("stride 1 with padding \"same\"".into(), format!("{strides:?}"))
            })?;
            for axis in &mut axes {
                let total = axis.span() as i64 - 1;
                axis.pad = PadAxis { lo: total / 2, hi: total - total / 2, interior: 0 };
            }
        }
        Padding::Each(sizes) => {
            let sizes = sizes.resolve(site, "padding", spatial, 0, &[x, weight])?;
            for (axis, size) in axes.iter_mut().zip(sizes) {
                axis.pad = PadAxis { lo: size as i64, hi: size as i64, interior: 0 };
            }
        }
    }
    Ok(axes)
}

fn add_bias(site: CallSite, y: &Tensor, bias: Option<&Tensor>, spatial: usize) -> Tensor {
    let Some(bias) = bias else { return y.clone() };
    let mut dims = bias.shape().to_vec();
    dims.resize(spatial + 1, 1);
    site.add(y, site.reshape(bias, &dims))
}

fn conv_transpose(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    opts: &ConvTransposeOpts,
) -> Checked<Tensor> {
    let (x, lone) = batched(site, x, spatial)?;
    check_operands(site, spatial, &x, weight, bias, opts.groups)?;
    let shape = weight.shape();
    site.require(x.shape()[1] == shape[0], &[&x, weight], || {
        (format!("an input of {} channels", shape[0]), x.shape()[1].to_string())
    })?;
    check_bias(site, bias, shape[1].saturating_mul(opts.groups))?;
    let axes = transposed_axes(site, &x, weight, opts)?;
    let split = [&[shape[0] / opts.groups][..], &shape[1..]].concat();
    let kernel = adjoint_kernel(site, &grouped(site, weight, opts.groups, 0, &split), spatial);
    let y = Correlation { site, groups: opts.groups, axes }.apply(&x, &kernel)?;
    Ok(unbatched(site, &add_bias(site, &y, bias, spatial), lone))
}

/// A transposed convolution is a convolution of stride 1 over the input with
/// `stride - 1` zeros between elements and the window's span around it.
fn transposed_axes(
    site: CallSite,
    x: &Tensor,
    weight: &Tensor,
    opts: &ConvTransposeOpts,
) -> Checked<Vec<SpatialAxis>> {
    let (spatial, operands) = (weight.rank() - 2, [x, weight]);
    let strides = opts.stride.resolve(site, "stride", spatial, 1, &operands)?;
    let pads = opts.padding.resolve(site, "padding", spatial, 0, &operands)?;
    let extra = opts.output_padding.resolve(site, "output padding", spatial, 0, &operands)?;
    let dilations = opts.dilation.resolve(site, "dilation", spatial, 1, &operands)?;
    (0..spatial)
        .map(|i| {
            let (extra, stride, dilation) = (extra[i], strides[i], dilations[i]);
            site.require(extra < stride || extra < dilation, &operands, || {
                ("output padding below the stride or the dilation".into(), extra.to_string())
            })?;
            let mut axis =
                SpatialAxis { kernel: weight.shape()[i + 2], stride: 1, dilation, pad: PadAxis::default() };
            let around = axis.span() as i64 - 1 - pads[i] as i64;
            axis.pad = PadAxis { lo: around, hi: around + extra as i64, interior: stride - 1 };
            Ok(axis)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, pattern, values};

    /// A 2-D convolution by its definition: `[n, c, h, w]`, `[o, c / g, kh, kw]`.
    fn reference(
        x: &Tensor,
        w: &Tensor,
        stride: usize,
        pad: usize,
        dilation: usize,
        groups: usize,
    ) -> (Vec<usize>, Vec<f64>) {
        let (sx, sw) = (x.shape(), w.shape());
        let out = |i: usize| (sx[i] + 2 * pad - dilation * (sw[i] - 1) - 1) / stride + 1;
        let (h, l) = (out(2), out(3));
        let (vx, vw) = (values(x), values(w));
        let mut y = Vec::new();
        for n in 0..sx[0] {
            for o in 0..sw[0] {
                for (i, j) in (0..h).flat_map(|i| (0..l).map(move |j| (i, j))) {
                    let mut sum = 0.0;
                    for c in 0..sw[1] {
                        for (a, b) in (0..sw[2]).flat_map(|a| (0..sw[3]).map(move |b| (a, b))) {
                            let (r, q) = (i * stride + a * dilation, j * stride + b * dilation);
                            if r < pad || q < pad || r - pad >= sx[2] || q - pad >= sx[3] {
                                continue;
                            }
                            let channel = o / (sw[0] / groups) * sw[1] + c;
                            sum += vx[((n * sx[1] + channel) * sx[2] + r - pad) * sx[3] + q - pad]
                                * vw[((o * sw[1] + c) * sw[2] + a) * sw[3] + b];
                        }
                    }
                    y.push(sum);
                }
            }
        }
        (vec![sx[0], sw[0], h, l], y)
    }

    #[test]
    fn options_mean_what_the_definition_says() {
        for (stride, pad, dilation, groups) in [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4), (3, 1, 2, 1)] {
            let x = pattern(&[2, 4, 7, 6], 1);
            let w = pattern(&[8, 4 / groups, 3, 2], 2);
            let opts = ConvOpts::default().stride(stride).padding(pad).dilation(dilation).groups(groups);
            let (dims, y) = reference(&x, &w, stride, pad, dilation, groups);
            assert_close(&x.conv2d(&w, None, opts), &dims, &y);
        }
    }

    #[test]
    fn same_padding_keeps_the_extents_and_bias_is_per_channel() {
        let (x, w, b) = (pattern(&[3, 5], 1), pattern(&[2, 3, 2], 2), pattern(&[2], 3));
        let y = x.conv1d(&w, Some(&b), ConvOpts::default().padding(Padding::Same));
        let padded = CallSite::here("pad").pad(
            &x,
            vec![PadAxis::default(), PadAxis { lo: 0, hi: 1, interior: 0 }],
            0i64,
        );
        let plain = values(&padded.conv1d(&w, None, ConvOpts::default()));
        let bias = values(&b);
        let expected: Vec<f64> = plain.iter().enumerate().map(|(i, v)| v + bias[i / 5]).collect();
        assert_close(&y, &[2, 5], &expected);
    }

    #[test]
    fn a_transposed_convolution_is_the_adjoint() {
        let spread = |v: &[f64], y: &Tensor| values(y).iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
        let cases = [
            (1, 0, 1, 1, 0),
            (2, 1, 1, 2, 1),
            (3, 0, 2, 1, 1),
            (2, 0, 1, 1, 1),
            (3, 1, 1, 2, 2),
            (3, 0, 1, 1, 2),
            (4, 2, 1, 1, 3),
            (4, 1, 1, 2, 3),
        ];
        for (stride, pad, dilation, groups, extra) in cases {
            let x = pattern(&[2, 4, 9, 8], 1);
            let w = pattern(&[6, 4 / groups, 3, 2], 2);
            let opts = ConvOpts::default().stride(stride).padding(pad).dilation(dilation).groups(groups);
            let y = x.conv2d(&w, None, opts);
            let g = pattern(&y.shape(), 3);
            let opts =
                ConvTransposeOpts::default().stride(stride).padding(pad).dilation(dilation).groups(groups);
            let back = g.conv_transpose2d(&w, None, opts.output_padding(extra));
            // <conv(x), g> = <x, conv_transpose(g)> over what the windows reach.
            let reach: Vec<usize> =
                back.shape().iter().zip(x.shape().iter()).map(|(a, b)| *a.min(b)).collect();
            let site = CallSite::here("slice");
            let cut = |t: &Tensor| {
                let t = site.slice(t, 2, 0, reach[2], 1);
                site.slice(&t, 3, 0, reach[3], 1)
            };
            let left = spread(&values(&y), &g);
            let right = spread(&values(&cut(&x)), &cut(&back));
            assert!((left - right).abs() < 1e-6, "{left} {right}");
        }
    }

    #[test]
    fn errors_are_told() {
        let (x, w) = (pattern(&[1, 2, 4, 4], 0), pattern(&[3, 2, 3, 3], 0));
        let bad = |opts: ConvOpts| error_text(&x.conv2d(&w, None, opts));
        assert!(bad(ConvOpts::default().stride(-1)).contains("stride"));
        assert!(bad(ConvOpts::default().dilation(0)).contains("dilation"));
        assert!(bad(ConvOpts::default().groups(2)).contains("divide"));
        assert!(bad(ConvOpts::default().dilation(2)).contains("at least 5"));
        assert!(error_text(&x.conv1d(&w, None, ConvOpts::default())).contains("rank"));
        assert!(error_text(&x.conv2d(&w, Some(&pattern(&[2], 0)), ConvOpts::default())).contains("[3]"));
    }
}
