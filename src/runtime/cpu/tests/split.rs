//! Kernels in parts against the same kernels whole, both by the reference.

use proptest::prelude::*;

use crate::base::{DType, Scalar};
use crate::ir::{DeviceBuffer, Monoid};
use crate::kernel::{
    Access, Affine, AxisId, Expr, ExprId, ExprNode, Guard, Kernel, KernelInput, KernelStore, LoopAxis,
};
use crate::render::split::{KernelSequence, split};
use crate::render::{GpuTarget, PassBuffer, iterations, thread_mapping};
use crate::runtime::cpu::reference;
use crate::runtime::cpu::tests::random::Case;
use crate::runtime::cpu::tests::{By, Outcome, buffer, close, elements, run};
use crate::runtime::{Binding, Bindings, IndexStatus, host};

/// A device that carries out few iterations, in small workgroups.
fn cramped() -> GpuTarget {
    GpuTarget { max_iterations: 300, max_workgroup: 2, ..GpuTarget::software() }
}

/// What the parts of a kernel leave, one after the other.
fn run_parts(split: &KernelSequence, kernel: &Kernel, inputs: &[DeviceBuffer]) -> Outcome {
    let memory = |bytes: usize| host::upload(&vec![0xff; bytes]).unwrap();
    let scratch: Vec<DeviceBuffer> = split.scratch.iter().map(|&bytes| memory(bytes)).collect();
    let outputs: Vec<DeviceBuffer> =
        kernel.stores.iter().map(|store| memory(store.numel * store.dtype.size())).collect();
    let bind = |place: &PassBuffer| Binding {
        buffer: match place {
            PassBuffer::Input(number) => &inputs[*number],
            PassBuffer::Output(number) => &outputs[*number],
            PassBuffer::Scratch(number) => &scratch[*number],
            PassBuffer::Status => panic!("no part binds the reports itself"),
        },
        offset: 0,
    };
    let status = IndexStatus::default();
    for part in &split.parts {
        let [inputs, outputs] =
            [&part.inputs, &part.outputs].map(|list| list.iter().map(bind).collect::<Vec<_>>());
        let bindings = Bindings { inputs: &inputs, outputs: &outputs, scalars: &[], status: &status };
        reference::run(&part.kernel, &bindings);
    }
    let read = |(buffer, store): (&DeviceBuffer, &KernelStore)| elements(host::bytes(buffer), store.dtype);
    let outputs = outputs.iter().zip(&kernel.stores).map(read).collect();
    Outcome { outputs, bad_index: status.take().is_some() }
}

/// The first difference between a kernel and its parts; the number of parts.
fn difference(
    kernel: &Kernel,
    inputs: &[DeviceBuffer],
    target: &GpuTarget,
    tolerance: f64,
) -> Result<usize, String> {
    let want = run(kernel, inputs, By::Reference);
    let split = split(kernel, target);
    let long = split.parts.iter().find(|part| {
        let rows = part.kernel.contraction().is_none() && part.kernel.scatter().is_none();
        // Where the device runs a few rows of a kernel at all.
        let some = 4 * iterations::of_step(&part.kernel, 1, 4) <= target.max_iterations;
        rows && some && thread_mapping::rows(&part.kernel, target).is_err()
    });
    let text = |kernel: &Kernel| crate::kernel::print::text(kernel);
    if let Some(part) = long {
        return Err(format!("a part that the device does not run: {}", text(&part.kernel)));
    }
    let have = run_parts(&split, kernel, inputs);
    let parts: Vec<String> = split.parts.iter().map(|part| text(&part.kernel)).collect();
    let whole = format!("{}\nin parts:\n{}", text(kernel), parts.join("\n"));
    if want.bad_index != have.bad_index {
        return Err(format!("bad index {} instead of {}\n{whole}", have.bad_index, want.bad_index));
    }
    for (number, (want, have)) in want.outputs.iter().zip(&have.outputs).enumerate() {
        let wrong = want.iter().zip(have).position(|(&w, &h)| !close(w, h, tolerance));
        if let Some(at) = wrong {
            let found = format!("output {number} at {at}: {} instead of {}", have[at], want[at]);
            return Err(format!("{found}\n{whole}"));
        }
    }
    Ok(split.parts.len())
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    if case.kernel.stores.is_empty() {
        return Ok(());
    }
    let inputs: Vec<DeviceBuffer> = case.data.iter().map(|(dtype, values)| buffer(values, *dtype)).collect();
    let tolerance = if case.rounds { 1e-2 } else { 1e-5 };
    difference(&case.kernel, &inputs, &cramped(), tolerance).map(|_| ()).map_err(TestCaseError::fail)
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..100_000, 40..240)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(300, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_in_parts_agree_with_the_whole(numbers in numbers()) {
        check(&Case::rows(numbers))?;
    }

    #[test]
    fn contractions_in_parts_agree_with_the_whole(numbers in numbers()) {
        check(&Case::contraction(numbers))?;
    }
}

/// A scan over one row between two loops of the same kernel.
#[test]
fn a_scan_over_one_row_stands_alone() {
    let axis = |extent, level| LoopAxis { extent, level };
    let (points, columns, row) = (AxisId(0), AxisId(1), AxisId(2));
    let address = Affine::axis(points).times(900).plus(&Affine::axis(columns));
    let load = Expr::loaded(0, Access { affine: address, ..Access::default() }, Guard::default());
    let node = |expr, level| ExprNode { expr, dtype: DType::F32, level };
    let kernel = Kernel {
        axes: vec![axis(3, 0), axis(900, 1), axis(1, 2)].into(),
        exprs: vec![
            node(load, 1),
            node(Expr::Scan(Monoid::Sum, ExprId(0), row), 2),
            node(Expr::Reduce(Monoid::Max, ExprId(1)), 1),
            node(Expr::Reduce(Monoid::Sum, ExprId(2)), 0),
        ],
        inputs: vec![KernelInput { dtype: DType::F32, numel: 2700 }].into(),
        stores: vec![KernelStore {
            dtype: DType::F32,
            value: ExprId(3),
            level: 0,
            address: Affine::axis(points),
            numel: 3,
        }]
        .into(),
        ..one_loop(Expr::Const(0), (DType::F32, DType::F32), 1, &[1], 0)
    };
    let data = buffer(&(0..2700).map(|i| Scalar::Int(i % 7)).collect::<Vec<_>>(), DType::F32);
    let parts = difference(&kernel, &[data], &cramped(), 1e-5).expect("the same in parts");
    assert!(parts > 1, "{parts}");
}

/// Rows of which each reduces an axis of no elements.
#[test]
fn rows_of_nothing_are_cut() {
    let axis = |extent, level| LoopAxis { extent, level };
    let node = |expr, level| ExprNode { expr, dtype: DType::F32, level };
    let load =
        Expr::loaded(0, Access { affine: Affine::axis(AxisId(1)), ..Access::default() }, Guard::default());
    let kernel = Kernel {
        axes: vec![axis(900, 1), axis(0, 2)].into(),
        exprs: vec![
            node(load, 2),
            node(Expr::Reduce(Monoid::Prod, ExprId(0)), 1),
            node(Expr::Reduce(Monoid::Sum, ExprId(1)), 0),
        ],
        inputs: vec![KernelInput { dtype: DType::F32, numel: 1 }].into(),
        stores: vec![KernelStore {
            dtype: DType::F32,
            value: ExprId(2),
            level: 0,
            address: Affine::default(),
            numel: 1,
        }]
        .into(),
        ..one_loop(Expr::Const(0), (DType::F32, DType::F32), 1, &[1], 0)
    };
    let data = buffer(&[Scalar::Int(7)], DType::F32);
    let parts = difference(&kernel, &[data], &cramped(), 1e-5).expect("the same in parts");
    assert!(parts > 1, "{parts}");
}

/// One loop over the last `rows` of axes; what it gives is stored at `level`.
fn one_loop(expr: Expr, dtypes: (DType, DType), points: usize, rows: &[usize], level: u8) -> Kernel {
    let mut axes = vec![LoopAxis { extent: points, level: 0 }];
    axes.extend(rows.iter().map(|&extent| LoopAxis { extent, level: 1 }));
    let address = |level: u8| {
        let mut affine = Affine::default();
        let mut stride = 1;
        for (i, axis) in axes.iter().enumerate().rev().filter(|(_, a)| a.level <= level && a.extent > 1) {
            affine = affine.plus(&Affine::axis(AxisId(i as u16)).times(stride));
            stride *= axis.extent as i64;
        }
        (affine, stride as usize)
    };
    // Rows lie in memory the first axis innermost, so that axes stay apart.
    let (mut affine, mut numel) = (Affine::default(), 1);
    for (i, axis) in axes.iter().enumerate().skip(1).chain(axes.iter().enumerate().take(1)) {
        let id = AxisId(i as u16);
        affine = if axis.extent == 1 { affine } else { affine.plus(&Affine::axis(id).times(numel as i64)) };
        numel *= axis.extent;
    }
    let load = Expr::loaded(0, Access { affine, ..Access::default() }, Guard::default());
    let ((address, stored), (from, to)) = (address(level), dtypes);
    let store = KernelStore { dtype: to, value: ExprId(1), level, address, numel: stored };
    Kernel {
        name: "one loop".into(),
        axes: axes.into(),
        exprs: vec![ExprNode { expr: load, dtype: from, level: 1 }, ExprNode { expr, dtype: to, level }],
        inputs: vec![KernelInput { dtype: from, numel }].into(),
        stores: vec![store].into(),
        ..Kernel::default()
    }
}

#[test]
fn every_reduction_and_scan_of_every_type_may_be_cut() {
    const TYPES: [DType; 6] = [DType::F32, DType::F64, DType::F16, DType::I64, DType::U8, DType::Bool];
    // One axis; an axis of few positions before the one that is cut.
    for (points, rows) in [(3, &[1003][..]), (1, &[5, 263])] {
        for (&monoid, &dtype) in Monoid::ALL.iter().flat_map(|m| TYPES.iter().map(move |d| (m, d))) {
            if !monoid.accepts(dtype.kind()) {
                continue;
            }
            let value = |i: usize| match monoid {
                // Neither zero nor too large.
                Monoid::Prod => Scalar::Int(if i % 97 == 5 { 2 } else { 1 - 2 * (i as i64 % 2) }),
                Monoid::Sum
                | Monoid::Max
                | Monoid::Min
                | Monoid::ArgMax
                | Monoid::ArgMin
                | Monoid::M2
                | Monoid::LogSumExp => {
                    Scalar::Int(((i * 37) % 101) as i64 - 50 * i64::from(dtype.is_float()))
                }
            };
            let numel = points * rows.iter().product::<usize>();
            let values: Vec<Scalar> = (0..numel).map(|i| value(i).cast(dtype)).collect();
            let inputs = [buffer(&values, dtype)];
            // A step of the longest of these functions takes half of this.
            let target = GpuTarget { max_iterations: 1000, ..cramped() };
            let reduce = Expr::Reduce(monoid, ExprId(0));
            let kernel = one_loop(reduce, (dtype, monoid.result(dtype)), points, rows, 0);
            let parts = difference(&kernel, &inputs, &target, 1e-3).unwrap();
            assert!(parts >= 3, "{} of {dtype} in {parts} parts", monoid.name());
            if monoid.scans() && rows.len() == 1 {
                let scan = Expr::Scan(monoid, ExprId(0), AxisId(1));
                let kernel = one_loop(scan, (dtype, dtype), points, rows, 1);
                let parts = difference(&kernel, &inputs, &target, 1e-3).unwrap();
                assert!(parts >= 4, "scan {} of {dtype} in {parts} parts", monoid.name());
            }
        }
    }
}

#[test]
fn rows_pages_apart_are_cut_for_the_caches_of_a_host() {
    let sum = Expr::Reduce(Monoid::Sum, ExprId(0));
    let mut kernel = one_loop(sum, (DType::F32, DType::F32), 8, &[128], 0);
    let affine = Affine::axis(AxisId(0)).plus(&Affine::axis(AxisId(1)).times(1024));
    kernel.exprs[0].expr = Expr::loaded(0, Access { affine, ..Access::default() }, Guard::default());
    kernel.inputs = vec![KernelInput { dtype: DType::F32, numel: 128 * 1024 }].into();
    let rows = |target: &GpuTarget| split(&kernel, target).parts[0].kernel.level_points(1);
    assert_eq!((rows(&GpuTarget::software()), rows(&GpuTarget::webgpu_default())), (16, 128));
    let data = buffer(&(0..128 * 1024).map(|i| Scalar::Int(i % 7)).collect::<Vec<_>>(), DType::F32);
    difference(&kernel, &[data], &GpuTarget::software(), 1e-5).expect("the same in parts");
}

#[test]
fn few_points_of_many_rows_are_cut_to_keep_the_device_busy() {
    let sum = |points, rows| {
        one_loop(Expr::Reduce(Monoid::Sum, ExprId(0)), (DType::F32, DType::F32), points, &[rows], 0)
    };
    for target in [GpuTarget::software(), GpuTarget::webgpu_default()] {
        let parts = |points, rows| split(&sum(points, rows), &target).parts;
        let whole = parts(1, 1 << 24);
        assert!(whole.len() >= 2 && whole[0].kernel.level_points(0) >= 256, "{:?}", target.adapter);
        assert_eq!(parts(4096, 4096).len(), 1, "enough points");
        assert_eq!(parts(1, 1000).len(), 1, "few rows");
    }
}
