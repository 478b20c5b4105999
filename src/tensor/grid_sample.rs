//! Sampling images at positions that another tensor gives.

use crate::base::DType;
use crate::base::shape::volume;
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::interpolate::cubic_weights;
use crate::tensor::options::options;

/// How values between elements are found.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::{GridSampleOpts, SampleMode};
/// let (x, at) = (Tensor::from([[[[1.0f32, 3.0]]]]), Tensor::from([[[[0.4f32, 0.0]]]]));
/// let y = x.grid_sample(&at, GridSampleOpts::default().mode(SampleMode::Nearest));
/// assert_eq!(y.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleMode {
    /// Linear in each spatial axis.
    #[default]
    Bilinear,
    /// The nearest element; of two as near, the one at an even position.
    Nearest,
    /// Cubic convolution in each of two axes (Keys 1981, with -0.75).
    Bicubic,
}

/// What lies outside the image.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::{GridSampleOpts, SamplePadding};
/// let (x, at) = (Tensor::from([[[[1.0f32, 3.0]]]]), Tensor::from([[[[5.0f32, 0.0]]]]));
/// let opts = GridSampleOpts::default().padding_mode(SamplePadding::Border);
/// assert_eq!(x.grid_sample(&at, opts).to_vec::<f32>()?, [3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplePadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The nearest border element.
    Border,
    /// The image, mirrored at its border.
    Reflection,
}

options! {
    /// Options of [`Tensor::grid_sample`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::GridSampleOpts;
    /// let (x, at) = (Tensor::from([[[[1.0f32, 3.0]]]]), Tensor::from([[[[1.0f32, 0.0]]]]));
    /// let y = x.grid_sample(&at, GridSampleOpts::default().align_corners(true));
    /// assert_eq!(y.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    GridSampleOpts {
        /// How values between elements are found (bilinear).
        mode: SampleMode = SampleMode::Bilinear;
        /// What lies outside the image (zeros).
        padding_mode: SamplePadding = SamplePadding::Zeros;
        /// -1 and 1 are the corner elements' centres, not their corners.
        align_corners: bool = false;
    }
}

impl Tensor {
    /// Samples images at positions that another tensor gives, interpolating between elements.
    ///
    /// Images `[n, c, h, w]` at `[n, h', w', 2]`, or `[n, c, d, h, w]` at `[n, d', h', w', 3]`. A
    /// position lists the last axis first; -1 and 1 are the image's ends. NaN falls on the first element
    /// where the padding keeps positions inside.
    ///
    /// Invalid when shapes or types do not fit, or bicubic has three axes. PyTorch:
    /// `nn.functional.grid_sample`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, at) = (Tensor::from([[[[1.0f32, 3.0]]]]), Tensor::zeros([1, 1, 1, 2], ()));
    /// assert_eq!(x.grid_sample(&at, Default::default()).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor, opts: GridSampleOpts) -> Tensor {
        let site = CallSite::here("grid_sample");
        let this: &Tensor = &site.autocast(self);
        let grid: &Tensor = &site.autocast(grid);
        finish(grid_sample(site, this, grid, &opts))
    }
}

fn grid_sample(site: CallSite, x: &Tensor, grid: &Tensor, opts: &GridSampleOpts) -> Checked<Tensor> {
    check(site, x, grid, opts)?;
    let spatial = x.rank() - 2;
    let (image, grid) = (site.cast(x, x.dtype().compute()), site.cast(grid, grid.dtype().compute()));
    let taps: Vec<Vec<Tap>> = (0..spatial)
        .map(|i| {
            let axis = SampleAxis { site, extent: x.shape()[2 + i], opts };
            axis.taps(&site.select_index(&grid, spatial + 1, spatial - 1 - i))
        })
        .collect();
    let flat = volume(&x.shape()[2..]);
    let image = site.reshape(&image, &[x.shape()[0], x.shape()[1], flat]);
    let sampler =
        Sampler { site, image, extents: &x.shape()[2..], zeros: opts.padding_mode == SamplePadding::Zeros };
    let mut sum: Option<Tensor> = None;
    for at in combinations(&taps) {
        let term = sampler.sample(&at);
        sum = Some(sum.map_or(term.clone(), |sum| site.add(sum, &term)));
    }
    let sum = sum.unwrap_or_else(|| x.clone());
    Ok(site.cast(&sum, x.dtype()))
}

fn check(site: CallSite, x: &Tensor, grid: &Tensor, opts: &GridSampleOpts) -> Checked<()> {
    let rank = x.rank();
    let fits = (4..=5).contains(&rank)
        && grid.rank() == rank
        && grid.shape()[0] == x.shape()[0]
        && grid.shape()[rank - 1] == rank - 2;
    site.require(fits, &[x, grid], || {
        let expected = "[n, c, h, w] with [n, h', w', 2], or one axis more of both";
        (expected.into(), format!("{} and {}", x.shape(), grid.shape()))
    })?;
    let types = x.dtype().is_float() && x.dtype() == grid.dtype();
    site.require(types, &[x, grid], || {
        ("an input and a grid of one floating type".into(), format!("{} and {}", x.dtype(), grid.dtype()))
    })?;
    site.require(!x.shape()[2..].contains(&0), &[x], || {
        ("an image with elements".into(), format!("shape {}", x.shape()))
    })?;
    site.require(opts.mode != SampleMode::Bicubic || rank == 4, &[x], || {
        ("two spatial axes for bicubic".into(), format!("{}", rank - 2))
    })
}

/// An element along one axis, and how much of it is taken; both `[n, ..]`
/// over the result's positions.
struct Tap {
    /// A whole number, of the computing type.
    at: Tensor,
    /// `None` is 1.
    weight: Option<Tensor>,
}

/// One choice of a tap along each axis.
fn combinations(taps: &[Vec<Tap>]) -> Vec<Vec<&Tap>> {
    let mut all: Vec<Vec<&Tap>> = vec![Vec::new()];
    for along in taps {
        all = all
            .into_iter()
            .flat_map(|head| along.iter().map(move |tap| [&head[..], &[tap]].concat()))
            .collect();
    }
    all
}

/// One spatial axis of the image.
struct SampleAxis<'a> {
    site: CallSite,
    extent: usize,
    opts: &'a GridSampleOpts,
}

impl SampleAxis<'_> {
    fn taps(&self, coordinate: &Tensor) -> Vec<Tap> {
        let site = self.site;
        let position = self.position(coordinate);
        match self.opts.mode {
            SampleMode::Nearest => {
                vec![Tap { at: site.unary(AluOp::Round, &self.inside(&position)), weight: None }]
            }
            SampleMode::Bilinear => {
                let position = self.inside(&position);
                let below = site.unary(AluOp::Floor, &position);
                let share = site.sub(&position, &below);
                let rest = site.sub(1.0, &share);
                let above = site.add(&below, 1.0);
                vec![Tap { at: below, weight: Some(rest) }, Tap { at: above, weight: Some(share) }]
            }
            SampleMode::Bicubic => {
                let below = site.unary(AluOp::Floor, &position);
                let weights = cubic_weights(site, &site.sub(&position, &below));
                let tap = |(i, weight): (usize, Tensor)| Tap {
                    at: self.inside(&site.add(&below, i as f64 - 1.0)),
                    weight: Some(weight),
                };
                weights.into_iter().enumerate().map(tap).collect()
            }
        }
    }

    /// From -1..1 to elements.
    fn position(&self, coordinate: &Tensor) -> Tensor {
        let (site, extent) = (self.site, self.extent as f64);
        let shifted = site.add(coordinate, 1.0);
        if self.opts.align_corners {
            site.mul(shifted, (extent - 1.0) / 2.0)
        } else {
            site.mul(site.sub(site.mul(shifted, extent), 1.0), 0.5)
        }
    }

    /// Moved onto the image where the padding says so.
    fn inside(&self, position: &Tensor) -> Tensor {
        let last = self.extent as f64 - 1.0;
        let clipped = |x: &Tensor| clipped(self.site, x, last);
        match self.opts.padding_mode {
            SamplePadding::Zeros => position.clone(),
            SamplePadding::Border => clipped(position),
            SamplePadding::Reflection if self.opts.align_corners => {
                clipped(&self.reflected(position, 0.0, last))
            }
            SamplePadding::Reflection => clipped(&self.reflected(position, -0.5, last + 1.0)),
        }
    }

    /// Folded into `low..low + span` by mirrors at both ends.
    fn reflected(&self, position: &Tensor, low: f64, span: f64) -> Tensor {
        let site = self.site;
        if span == 0.0 {
            return site.mul(position, 0.0);
        }
        let distance = site.unary(AluOp::Abs, &site.sub(position, low));
        // A triangle wave: what is left of a period, from whichever end is nearer.
        let rest = site.binary(AluOp::Rem, distance, 2.0 * span);
        site.add(site.min(&rest, site.sub(2.0 * span, &rest)), low)
    }
}

/// Positions kept in `0..=last`; NaN is 0. At both ends the gradient is 0.
fn clipped(site: CallSite, x: &Tensor, last: f64) -> Tensor {
    let below = site.select(&site.lt(x, last), x, last, x.dtype());
    site.select(&site.lt(0.0, x), below, 0.0, x.dtype())
}

/// The image, with its spatial axes as one.
struct Sampler<'a> {
    site: CallSite,
    image: Tensor,
    extents: &'a [usize],
    zeros: bool,
}

impl Sampler<'_> {
    /// The elements that the taps name, weighted: `[n, c, ..]`.
    fn sample(&self, taps: &[&Tap]) -> Tensor {
        let site = self.site;
        let (mut flat, mut valid, mut weight): (Option<Tensor>, Option<Tensor>, Option<Tensor>) =
            (None, None, None);
        for (tap, &extent) in taps.iter().zip(self.extents) {
            let kept = clipped(site, &tap.at, extent as f64 - 1.0);
            let index = site.cast(&kept, DType::I64);
            flat = Some(match flat {
                Some(flat) => site.add(site.mul(flat, extent as i64), index),
                None => index,
            });
            let inside = site.eq(&kept, &tap.at);
            valid = Some(valid.map_or(inside.clone(), |valid| site.and(valid, &inside)));
            weight = match (weight, &tap.weight) {
                (Some(weight), Some(own)) => Some(site.mul(weight, own)),
                (weight, own) => weight.or(own.clone()),
            };
        }
        let (Some(flat), Some(valid)) = (flat, valid) else { return self.image.clone() };
        let value = self.gather(&flat);
        let spread = |t: &Tensor| site.unsqueeze(t, 1);
        let value =
            if self.zeros { site.select(&spread(&valid), value, 0.0, self.image.dtype()) } else { value };
        weight.map_or(value.clone(), |weight| site.mul(&value, spread(&weight)))
    }

    fn gather(&self, flat: &Tensor) -> Tensor {
        let (site, shape, points) = (self.site, self.image.shape(), flat.numel() / flat.shape()[0].max(1));
        let index = site.reshape(flat, &[shape[0], 1, points]);
        let taken = site.gather(&self.image, 2, &site.expand(&index, &[shape[0], shape[1], points]));
        site.reshape(&taken, &[&shape[..2], &flat.shape()[1..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

    /// Positions along the width at the middle row of a 1 by 4 image.
    fn row(points: &[f64], opts: GridSampleOpts) -> Vec<f64> {
        let x = f32s(&[1, 1, 1, 4], &[1.0, 2.0, 4.0, 8.0]);
        let grid: Vec<f64> = points.iter().flat_map(|&p| [p, 0.0]).collect();
        values(&x.grid_sample(&f32s(&[1, 1, points.len(), 2], &grid), opts))
    }

    #[test]
    fn positions_between_elements_are_interpolated() {
        let corners = GridSampleOpts::default().align_corners(true);
        assert_eq!(row(&[-1.0, 0.0, 1.0], corners.clone()), [1.0, 3.0, 8.0]);
        assert_eq!(row(&[-0.75, 0.5], GridSampleOpts::default()), [1.0, 6.0]);
        // A little above 0.5 and 1.5 elements: a half goes to the even one.
        let thirds = [-2.0 / 3.0 + 1e-7, 0.0, 1.0];
        assert_eq!(row(&thirds, corners.mode(SampleMode::Nearest)), [2.0, 4.0, 8.0]);
    }

    #[test]
    fn outside_is_zero_the_border_or_a_mirror_image() {
        let at = [-2.0, 1.25, 3.5];
        let with = |padding| row(&at, GridSampleOpts::default().padding_mode(padding));
        // Elements -2.5, 4.0 and 8.5.
        assert_eq!(with(SamplePadding::Zeros), [0.0, 0.0, 0.0]);
        assert_eq!(with(SamplePadding::Border), [1.0, 8.0, 8.0]);
        assert_eq!(with(SamplePadding::Reflection), [3.0, 8.0, 1.5]);
    }

    #[test]
    fn nan_and_infinities_fall_on_an_edge() {
        let at = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30];
        for corners in [false, true] {
            let with = |mode, padding| {
                let opts = GridSampleOpts::default().mode(mode).padding_mode(padding);
                row(&at, opts.align_corners(corners))
            };
            for mode in [SampleMode::Nearest, SampleMode::Bilinear] {
                assert_eq!(with(mode, SamplePadding::Border), [8.0, 1.0, 1.0, 8.0]);
                assert_eq!(with(mode, SamplePadding::Reflection)[..3], [1.0, 1.0, 1.0]);
            }
            assert_eq!(with(SampleMode::Nearest, SamplePadding::Zeros), [0.0; 4]);
            let none = with(SampleMode::Bilinear, SamplePadding::Zeros);
            assert!(none[..3].iter().all(|x| x.is_nan()), "{none:?}");
            let cubic = with(SampleMode::Bicubic, SamplePadding::Border);
            assert!(cubic[..3].iter().all(|x| x.is_nan()), "{cubic:?}");
        }
    }

    #[test]
    fn a_grid_of_the_elements_gives_the_image_back() {
        let x = pattern(&[1, 2, 3, 3], 1);
        let grid: Vec<f64> = (0..9).flat_map(|p| [f64::from(p % 3) - 1.0, f64::from(p / 3) - 1.0]).collect();
        let grid = f32s(&[1, 3, 3, 2], &grid);
        for mode in [SampleMode::Bilinear, SampleMode::Nearest, SampleMode::Bicubic] {
            let opts = GridSampleOpts::default().align_corners(true).mode(mode);
            assert_close(&x.grid_sample(&grid, opts), &[1, 2, 3, 3], &values(&x));
        }
        assert!(error_text(&x.grid_sample(&x, GridSampleOpts::default())).contains("h'"));
    }
}
