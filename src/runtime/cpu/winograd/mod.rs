//! Convolutions with windows of 3 by 3 that move by one, after Winograd: the products of
//! transformed filters and inputs, 16 for each 2 by 2 outputs instead of 36.
//!
//! Sums are of neighbours' differences, so an output's error is relative to what lies around
//! it, not to its own terms: about that of summing the products one by one where those are of
//! one magnitude. Integers that are exact otherwise are exact here. Where an output is not
//! finite, its rows are computed again from windows, so infinities and NaN spread no further than
//! their windows. [`Precision::Strict`] computes from windows everywhere.

mod run;

use crate::base::{DType, Precision, Result};
use crate::kernel::{AxisId, Contraction, Kernel};
use crate::runtime::cpu::contraction::{BlockWriter, OperandSource, ResultTarget, side, target, writer};
use crate::runtime::cpu::convolution::{Convolution, ConvolutionExtents, find};
use crate::runtime::cpu::thresholds::{
    WINOGRAD_COPY_COST, WINOGRAD_FILTER_BYTES, WINOGRAD_FILTER_COST, WINOGRAD_MIN_FILTERS, WINOGRAD_TILE_COST,
};
use crate::runtime::{Bindings, Program};

/// A compiled convolution.
#[derive(Debug)]
pub struct Winograd {
    name: String,
    extents: ConvolutionExtents,
    /// Writes blocks of the input: batch and image, channels, rows and columns.
    input: BlockWriter,
    /// Writes blocks of the filters: batch, filters, taps and channels.
    filters: BlockWriter,
    /// Whether filters are upside down, and mirrored.
    flipped: [bool; 2],
    /// Where the outputs go: batch and image, filters, rows and columns.
    target: ResultTarget,
    /// The operands of the product with windows, filters and outputs being rows.
    windows: [OperandSource; 2],
}

impl ConvolutionExtents {
    /// Rows and columns of tiles.
    fn tiles(&self) -> [usize; 2] {
        [self.rows.div_ceil(2), self.cols.div_ceil(2)]
    }
}

impl Winograd {
    /// The program of a kernel that is such a convolution, if it is one for which this pays.
    pub fn of(kernel: &Kernel, contraction: &Contraction) -> Option<Winograd> {
        if contraction.dtype != DType::F32 || contraction.precision == Precision::Strict {
            return None;
        }
        let found = find(kernel, contraction)?;
        let extents = found.extents(kernel, contraction);
        (extents.window == [3, 3] && is_profitable(&extents))
            .then(|| Winograd::new(kernel, contraction, &found, extents))?
    }

    fn new(
        kernel: &Kernel,
        contraction: &Contraction,
        found: &Convolution,
        extents: ConvolutionExtents,
    ) -> Option<Winograd> {
        let side = |rows: &[AxisId], value| {
            side(kernel, [&contraction.batch, rows, &contraction.k], contraction.dtype, value)
        };
        let (data, weights) = (side(found.points, found.data), side(found.filters, found.weights));
        if matches!(data, OperandSource::Strided { .. }) {
            return None;
        }
        let images = [&contraction.batch[..], found.images()].concat();
        let taps = [&found.window[..], &found.channels[..]].concat();
        let spread = found.spread(kernel);
        let target = target(kernel, contraction.dtype, [&images, found.filters, &found.place]);
        if let ResultTarget::Strided(strides) = &target
            && !strides.contiguous()
        {
            return None;
        }
        Some(Winograd {
            name: kernel.name.to_string(),
            extents,
            input: writer(&spread, [&images, &found.channels, &found.place], found.data),
            filters: writer(kernel, [&contraction.batch, found.filters, &taps], found.weights),
            flipped: found.flipped,
            target,
            windows: [weights, data],
        })
    }
}

impl Program for Winograd {
    fn source(&self) -> String {
        let Winograd { name, extents, input, filters, target, .. } = self;
        let ConvolutionExtents { batch, images, channels, filters: count, rows, cols, .. } = extents;
        format!(
            "winograd {name}: {batch} x {images} images, {count} filters of {channels} channels, {rows} x \
             {cols}\ninput:\n{}filters:\n{}{}",
            input.source(),
            filters.source(),
            target.source()
        )
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        self.run(bindings);
        Ok(())
    }

    fn compiled(&self) -> Option<u64> {
        None
    }
}

/// Whether the transforms cost less than the products and the copies of windows that they save.
/// Costs are in multiply-adds of a product; those of transforms and copies were measured.
fn is_profitable(extents: &ConvolutionExtents) -> bool {
    let ConvolutionExtents { images, channels, filters, rows, cols, .. } = *extents;
    let many = |factors: &[usize]| factors.iter().fold(1usize, |product, &x| product.saturating_mul(x));
    let [down, across] = extents.tiles();
    let tiles = many(&[images, down, across]);
    let windows = many(&[9, images, rows, cols, channels, filters + WINOGRAD_COPY_COST]);
    let tiled = many(&[tiles, 16 * many(&[channels, filters]) + WINOGRAD_TILE_COST * (channels + filters)]);
    let once = many(&[WINOGRAD_FILTER_COST, channels, filters]);
    let bytes = many(&[16 * size_of::<f32>(), channels, filters]);
    bytes <= WINOGRAD_FILTER_BYTES
        && filters >= WINOGRAD_MIN_FILTERS
        && tiled.saturating_add(once) < windows / 10 * 9
}
