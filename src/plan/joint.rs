//! Steps that their device launches as one: products of one row that need not wait for each other, as those of
//! queries, keys and values.

use std::ops::Range;

use crate::ir::{Graph, NodeId, Op};
use crate::kernel::{Affine, AxisId, Kernel};
use crate::plan::build::CompiledPlan;
use crate::schedule::memory::read_where_written;
use crate::schedule::{Location, MemoryPlan, ScheduledGraph, Step};

/// By step, how many from it on are one launch.
pub(super) fn joint_launches(schedule: &ScheduledGraph, compiled: &CompiledPlan) -> Vec<usize> {
    let mut counts = vec![1; compiled.runs.len()];
    let mut first = 0;
    while first < counts.len() {
        counts[first] = joint_from(schedule, compiled, first);
        first += counts[first];
    }
    counts
}

/// How many steps from one on are one launch: any number that are independent, or two elementwise.
fn joint_from(schedule: &ScheduledGraph, compiled: &CompiledPlan, first: usize) -> usize {
    let mut count = 1;
    loop {
        match next_order(schedule, compiled, first..first + count) {
            Some(StepOrder::Independent) => count += 1,
            Some(StepOrder::Elementwise) if count == 1 => return 2,
            Some(StepOrder::Elementwise) | None => return count,
        }
    }
}

/// What a step waits for, of an earlier one that is launched with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOrder {
    /// Nothing.
    Independent,
    /// Each element that it computes, for the same element of the earlier one's.
    Elementwise,
}

/// What the step after some waits for; `None` if it cannot be launched with them.
fn next_order(schedule: &ScheduledGraph, compiled: &CompiledPlan, before: Range<usize>) -> Option<StepOrder> {
    let program = |number: usize| compiled.runs.get(number)?.unchecked_program();
    let (last, next) = (program(before.end - 1)?, program(before.end)?);
    let (step, earlier) = (&schedule.steps[before.end], &schedule.steps[before]);
    if earlier[0].device != step.device || !compiled.backend(step.device).joins(last, next) {
        return None;
    }
    earlier.iter().try_fold(StepOrder::Independent, |all, other| match order(schedule, other, step)? {
        StepOrder::Independent => Some(all),
        StepOrder::Elementwise => Some(StepOrder::Elementwise),
    })
}

/// The order of two steps; `None` if the later one must wait for all of the earlier one.
fn order(schedule: &ScheduledGraph, earlier: &Step, later: &Step) -> Option<StepOrder> {
    let (graph, memory) = (&schedule.graph, &schedule.memory);
    let overlap = |these: &[NodeId], those: &[NodeId]| {
        these.iter().any(|&one| those.iter().any(|&other| overlaps(graph, memory, one, other)))
    };
    let packs = |ids: &[NodeId]| ids.iter().any(|&id| matches!(graph.node(id).op, Op::Pack(_)));
    if packs(&earlier.inputs) || packs(&later.inputs) || overlap(&later.outputs, &earlier.inputs) {
        return None;
    }
    let reads = (0..).zip(&later.inputs).filter(|(_, input)| earlier.outputs.contains(input));
    let reads: Vec<u32> = reads.map(|(number, _)| number).collect();
    if reads.is_empty() {
        return (!overlap(&later.outputs, &earlier.outputs)).then_some(StepOrder::Independent);
    }
    let (from, to) = (earlier.kernel()?, later.kernel()?);
    reads.into_iter().all(|input| reads_elementwise(from, to, input)).then_some(StepOrder::Elementwise)
}

/// Whether two values may share memory.
fn overlaps(graph: &Graph, memory: &MemoryPlan, one: NodeId, other: NodeId) -> bool {
    let bytes = |id: NodeId| graph.ty(id).bytes();
    let meet = |start: usize, other_start: usize| {
        start < other_start + bytes(other) && other_start < start + bytes(one)
    };
    let is_donated = |number: u32| memory.results[number as usize].donated.is_some();
    match (memory.locations.get(&one), memory.locations.get(&other)) {
        (Some(Location::Arena(start)), Some(Location::Arena(other))) => meet(*start, *other),
        (Some(Location::Result(number, start)), Some(Location::Result(other, other_start))) => {
            number == other && meet(*start, *other_start)
        }
        (Some(Location::Param(_)), Some(Location::Result(number, _)))
        | (Some(Location::Result(number, _)), Some(Location::Param(_))) => is_donated(*number),
        (Some(Location::Param(_)), Some(Location::Param(_))) => true,
        (Some(Location::Arena(_)), Some(Location::Param(_) | Location::Result(..)))
        | (Some(Location::Param(_) | Location::Result(..)), Some(Location::Arena(_))) => false,
        (None, _) | (_, None) => true,
    }
}

/// Whether a product of one row reads an input, the result of another, at nothing but the element that it computes.
fn reads_elementwise(earlier: &Kernel, later: &Kernel, input: u32) -> bool {
    let ([from], [to]) = (&earlier.stores[..], &later.stores[..]) else { return false };
    let (Some(columns), Some(own)) = (columns(earlier), columns(later)) else { return false };
    let along = |kernel: &Kernel, address: &Affine, axes: &[AxisId]| -> Vec<(usize, i64)> {
        axes.iter().map(|&axis| (kernel.axes[axis.index()].extent, address.coefficient(axis))).collect()
    };
    from.address.offset == to.address.offset
        && along(earlier, &from.address, columns) == along(later, &to.address, own)
        && read_where_written(later, input, to)
}

/// The axes of the columns of a product of one row.
fn columns(kernel: &Kernel) -> Option<&[AxisId]> {
    let product = kernel.contraction()?;
    if kernel.points_of(&product.batch) != 1 {
        return None;
    }
    match (kernel.points_of(&product.m), kernel.points_of(&product.n)) {
        (1, _) => Some(&product.n),
        (_, 1) => Some(&product.m),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::DType;
    use crate::plan::context::{Context, with_context};
    use crate::tensor::Tensor;
    use crate::tensor::read::realize;
    use crate::tensor::testing::{assert_close, pattern, values};

    /// Launches that compute some tensors.
    fn launches(tensors: &[&Tensor]) -> u64 {
        let context = Context::new();
        with_context(&context, || realize(tensors).unwrap());
        context.counters().kernels_launched
    }

    fn ready(shape: &[usize], seed: usize, dtype: DType) -> Tensor {
        pattern(shape, seed).to_dtype(dtype).realize().unwrap().clone()
    }

    #[test]
    fn products_of_one_row_are_one_launch_and_the_same_bits() {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            for transposed in [true, false] {
                let x = ready(&[1, 160], 1, dtype);
                let weight = |n: usize| match transposed {
                    true => ready(&[n, 160], n, dtype).t(),
                    false => ready(&[160, n], n, dtype),
                };
                let weights = [300, 33, 1024, 5].map(weight);
                let all: Vec<Tensor> = weights.iter().map(|w| x.matmul(w) * 0.5).collect();
                assert_eq!(launches(&all.iter().collect::<Vec<_>>()), 1, "{dtype}, {transposed}");
                for (together, w) in all.iter().zip(&weights) {
                    let alone = x.matmul(w) * 0.5;
                    assert_eq!(values(together), values(&alone), "{dtype}, {transposed}");
                }
            }
        }
    }

    #[test]
    fn a_product_may_read_another_at_its_own_elements() {
        let x = ready(&[1, 1, 96], 1, DType::F32);
        let [gate, up] = [2, 3].map(|seed| ready(&[520, 96], seed, DType::F32));
        let (g, u) = (x.linear(&gate, None), x.linear(&up, None));
        let y = g.silu() * &u;
        assert_eq!(launches(&[&y]), 1);
        let (g, u) = (values(&g), values(&u));
        let expected: Vec<f64> = g.iter().zip(&u).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        assert_close(&y, &[1, 1, 520], &expected);
    }

    #[test]
    fn a_product_that_needs_more_of_another_waits() {
        let x = ready(&[1, 64], 1, DType::F32);
        let [a, b] = [2, 3].map(|seed| ready(&[64, 64], seed, DType::F32));
        let chain = x.matmul(&a).relu().matmul(&b);
        assert_eq!(launches(&[&chain]), 2);
        let whole = x.matmul(&a);
        let one = x.matmul(&b) * whole.narrow(1, 3, 1);
        assert_eq!(launches(&[&whole, &one]), 2);
        let flipped = x.matmul(&a).flip([1]) * x.matmul(&b);
        assert_eq!(launches(&[&flipped]), 2);
        let (a, b) = (values(&x.matmul(&a)), values(&x.matmul(&b)));
        let expected: Vec<f64> = a.iter().rev().zip(&b).map(|(a, b)| a * b).collect();
        assert_close(&flipped, &[1, 64], &expected);
    }

    /// A row that is computed in both ways.
    struct Row {
        tensor: Tensor,
        exact: Vec<f64>,
    }

    /// Rows made of earlier ones by products and elementwise.
    fn random_rows(seed: u64, weights: &[(Tensor, Vec<f64>)]) -> Vec<Row> {
        const WIDTH: usize = 72;
        let mut state = seed;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % most
        };
        let first = ready(&[1, WIDTH], seed as usize, DType::F32);
        let exact = values(&first);
        let mut rows = vec![Row { tensor: first, exact }];
        for _ in 0..10 {
            let (a, b) = (&rows[below(rows.len())], &rows[below(rows.len())]);
            let zip = |f: fn(f64, f64) -> f64| a.exact.iter().zip(&b.exact).map(|(&a, &b)| f(a, b)).collect();
            let (weight, numbers) = &weights[below(weights.len())];
            let product = |row: &[f64]| -> Vec<f64> {
                (0..WIDTH).map(|n| (0..WIDTH).map(|k| row[k] * numbers[n * WIDTH + k]).sum()).collect()
            };
            let (tensor, exact) = match below(8) {
                0 => (&a.tensor + &b.tensor, zip(|a, b| a + b)),
                1 => (a.tensor.tanh() * &b.tensor, zip(|a, b| a.tanh() * b)),
                2 => (a.tensor.flip([1]).tanh(), a.exact.iter().rev().map(|a| a.tanh()).collect()),
                3 => (a.tensor.linear(weight, None).tanh() + &b.tensor, {
                    product(&a.exact).iter().zip(&b.exact).map(|(a, b)| a.tanh() + b).collect()
                }),
                _ => (a.tensor.linear(weight, None), product(&a.exact)),
            };
            rows.push(Row { tensor, exact });
        }
        rows
    }

    #[test]
    fn random_rows_are_right_however_they_are_launched() {
        let weights: Vec<(Tensor, Vec<f64>)> = (0..4)
            .map(|seed| {
                let weight = (ready(&[72, 72], seed, DType::F32) * 0.1).realize().unwrap().clone();
                let numbers = values(&weight);
                (weight, numbers)
            })
            .collect();
        let (mut planned, mut launched) = (0, 0);
        for seed in 0..if cfg!(miri) { 3 } else { 150 } {
            let rows = random_rows(seed, &weights);
            let outputs: Vec<&Row> = rows.iter().rev().step_by(1 + seed as usize % 3).take(4).collect();
            let tensors: Vec<&Tensor> = outputs.iter().map(|row| &row.tensor).collect();
            planned += crate::plan(&tensors).unwrap().kernels.len() as u64;
            launched += launches(&tensors);
            for row in outputs {
                assert_close(&row.tensor, &[1, 72], &row.exact);
            }
        }
        assert!(launched + 100 < planned, "{launched} launches of {planned} kernels");
    }
}
