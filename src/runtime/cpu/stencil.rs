//! Convolutions with one filter for each batch (depthwise ones): nothing is shared between
//! products, so rows of the input, with what pads them, are read into cache, and each row of
//! the result is a sum of shifted rows that stays in registers.

use std::ops::Range;

use kiln_simd::micro;

use crate::base::{DType, Result};
use crate::kernel::{Contraction, Kernel};
use crate::runtime::cpu::contraction::{BlockWriter, ResultSink, ResultTarget, WriteBlockFn, target, writer};
use crate::runtime::cpu::convolution::{ConvolutionExtents, find};
use crate::runtime::cpu::gemm::scratch;
use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{
    SHALLOW_K, STENCIL_CACHED_ELEMENTS, STENCIL_MIN_COLUMNS, STENCIL_MIN_ROWS,
};
use crate::runtime::cpu::tile::product::StridedBlock;
use crate::runtime::{Bindings, Program};

/// A compiled convolution.
#[derive(Debug)]
pub struct Stencil {
    name: String,
    extents: ConvolutionExtents,
    /// Writes blocks of the input: batch and image, channels, rows and columns.
    input: BlockWriter,
    /// Writes filters: batch, one row, taps and channels.
    filters: BlockWriter,
    /// Where the sums go: batch and image, one row, rows and columns.
    target: ResultTarget,
    /// Whether filters are upside down, and mirrored.
    flipped: [bool; 2],
}

impl Stencil {
    /// The program of a kernel that is such a convolution.
    pub fn of(kernel: &Kernel, contraction: &Contraction) -> Option<Stencil> {
        let found = find(kernel, contraction).filter(|_| contraction.dtype == DType::F32)?;
        let extents = found.extents(kernel, contraction);
        let products = extents.products();
        if extents.filters != 1 || extents.cols < STENCIL_MIN_COLUMNS || !(2..=SHALLOW_K).contains(&products)
        {
            return None;
        }
        let images = [&contraction.batch[..], found.images()].concat();
        let taps = [&found.channels[..], &found.window[..]].concat();
        let target = target(kernel, contraction.dtype, [&images, found.filters, &found.place]);
        if matches!(&target, ResultTarget::Strided(strides) if !strides.contiguous()) {
            return None;
        }
        Some(Stencil {
            name: kernel.name.to_string(),
            extents,
            input: writer(&found.spread(kernel), [&images, &found.channels, &found.place], found.data),
            filters: writer(kernel, [&contraction.batch, found.filters, &taps], found.weights),
            target,
            flipped: found.flipped,
        })
    }
}

impl ConvolutionExtents {
    /// Products of a sum.
    fn products(&self) -> usize {
        self.channels * self.window[0] * self.window[1]
    }

    /// Rows of the result that a task computes.
    fn task_rows(&self) -> usize {
        let row = self.channels * (self.cols + self.window[1] - 1);
        (STENCIL_CACHED_ELEMENTS / row)
            .saturating_sub(self.window[0] - 1)
            .clamp(STENCIL_MIN_ROWS, self.rows.max(STENCIL_MIN_ROWS))
    }
}

impl Program for Stencil {
    fn source(&self) -> String {
        let ConvolutionExtents { batch, images, channels, rows, cols, window: [down, across], .. } =
            self.extents;
        format!(
            "stencil {}: {batch} x {images} images, {channels} channels, {rows} x {cols}, window {down} x \
             {across}\ninput:\n{}filters:\n{}{}",
            self.name,
            self.input.source(),
            self.filters.source(),
            self.target.source()
        )
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let (read, taps) = (self.input.on(bindings), self.filters.on(bindings));
        let to = self.target.on(bindings);
        let launch = StencilLaunch { of: self, read: &*read, taps: &*taps, to };
        let ConvolutionExtents { batch, images, rows, .. } = self.extents;
        let step = self.extents.task_rows();
        let parts = rows.div_ceil(step);
        threads::parallel_for(batch * images * parts, |job| {
            let start = job % parts * step;
            launch.task(job / parts, start..rows.min(start + step));
        });
        Ok(())
    }

    fn compiled(&self) -> Option<u64> {
        None
    }
}

struct StencilLaunch<'a> {
    of: &'a Stencil,
    read: &'a WriteBlockFn<'a>,
    taps: &'a WriteBlockFn<'a>,
    to: ResultSink<'a>,
}

// SAFETY: threads write disjoint parts of the output.
unsafe impl Sync for StencilLaunch<'_> {}

impl StencilLaunch<'_> {
    /// Computes some rows of an image.
    fn task(&self, image: usize, rows: Range<usize>) {
        let extents = &self.of.extents;
        let ConvolutionExtents { images, channels, cols, window: [down, across], .. } = *extents;
        let width = cols + across - 1;
        let channel = (rows.len() + down - 1) * width;
        let sizes = [channels * channel, extents.products(), rows.len() * cols].map(scratch::padded::<f32>);
        scratch::with(sizes.iter().sum(), |input: *mut f32| {
            let filter = input.wrapping_add(sizes[0]);
            let block = filter.wrapping_add(sizes[1]);
            let read = rows.start * width..(rows.end + down - 1) * width;
            (self.read)(image, 0..channels, read, lines(input, channel));
            (self.taps)(image / images, 0..1, 0..extents.products(), lines(filter, 0));
            // SAFETY: just written.
            let weights = unsafe { std::slice::from_raw_parts(filter.cast_const(), extents.products()) };
            let taps = self.offsets(width, channel);
            let to = match &self.to {
                ResultSink::Memory(start, strides) => {
                    start.wrapping_offset(strides.batch(image) + (rows.start * cols) as isize)
                }
                ResultSink::Blocks(_) => block,
            };
            for row in 0..rows.len() {
                let (to, from) = (to.wrapping_add(row * cols), input.wrapping_add(row * width));
                // SAFETY: all rows a window reaches were read; the row is this task's.
                unsafe { micro::weighted_sum()(to, cols, from, &taps, weights) };
            }
            if let ResultSink::Blocks(program) = &self.to {
                program.run(image, 0..1, rows.start * cols..rows.end * cols, lines(block, 0));
            }
        });
    }

    /// Where each product's factor lies, from the first one of a point on.
    fn offsets(&self, width: usize, channel: usize) -> Vec<usize> {
        let ConvolutionExtents { channels, window: [down, across], .. } = self.of.extents;
        let [up, left] = self.of.flipped;
        let turned = |turned: bool, at: usize, extent: usize| if turned { extent - 1 - at } else { at };
        let offset = |tap: usize| {
            let (row, col) = (tap / across % down, tap % across);
            tap / (down * across) * channel + turned(up, row, down) * width + turned(left, col, across)
        };
        (0..channels * down * across).map(offset).collect()
    }
}

fn lines(start: *mut f32, line: usize) -> StridedBlock {
    StridedBlock { start: start.cast(), row_stride: line, lane: size_of::<f32>() }
}
