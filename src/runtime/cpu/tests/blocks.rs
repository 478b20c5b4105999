//! Programs that write blocks of a value, against the whole of it.

use std::ops::Range;

use super::{By, Outcome, kernel, ramp, run, values};
use crate::ir::DeviceBuffer;
use crate::kernel::AxisId;
use crate::runtime::cpu::contraction::writer;
use crate::runtime::cpu::tile::product::StridedBlock;
use crate::runtime::{Binding, Bindings, IndexStatus};

/// Lines of pairs, the numbers of each in the other order: tiles are runs of pairs, and blocks may begin and end
/// within one.
#[test]
fn blocks_of_pairs_may_begin_and_end_anywhere() {
    const LINES: usize = 3;
    const ALONG: usize = 600;
    // Two runs of pairs a line, which lie between each other in memory.
    let (kernel, text) = kernel(&(ramp(&[LINES, ALONG / 4, 2, 2]).transpose(1, 2).flip([3]) * 2.0));
    let axes: Vec<AxisId> = (0..kernel.axes.len()).map(|axis| AxisId(axis as u16)).collect();
    let [lines, runs, pairs, places] = axes[..] else { panic!("four axes:\n{text}") };
    let writer = writer(&kernel, [&[], &[lines], &[runs, pairs, places]], kernel.stores[0].value);
    assert!(writer.source().contains("of i2 x i3"), "rows of pairs: {}", writer.source());
    let inputs: Vec<DeviceBuffer> =
        kernel.inputs.iter().map(|input| values(input.numel, input.dtype)).collect();
    let Outcome { outputs, .. } = run(&kernel, &inputs, By::Reference);
    let bound: Vec<Binding<'_>> = inputs.iter().map(|buffer| Binding { buffer, offset: 0 }).collect();
    let status = IndexStatus::default();
    let bindings = Bindings { inputs: &bound, outputs: &[], scalars: &[], status: &status };
    let write = writer.on(&bindings);
    let blocks: [(Range<usize>, Range<usize>); 6] =
        [(0..3, 0..600), (1..2, 0..1), (0..2, 1..2), (1..3, 3..598), (2..3, 2..600), (0..3, 290..331)];
    for (lines, along) in blocks {
        let stride = along.len() + 1;
        let mut block = vec![f32::NAN; lines.len() * stride];
        let to =
            StridedBlock { start: block.as_mut_ptr().cast(), row_stride: stride, lane: size_of::<f32>() };
        write(0, lines.clone(), along.clone(), to);
        for (line, found) in lines.clone().zip(block.chunks(stride)) {
            let expected = &outputs[0][line * ALONG..][along.clone()];
            let same = expected.iter().zip(found).all(|(want, &have)| want.as_f64() == f64::from(have));
            assert!(same && found[along.len()].is_nan(), "{lines:?}, {along:?}: {found:?}");
        }
    }
}
