//! Random programs run fused on a device and agree with the oracle: bit by
//! bit on small integers, within propagated bounds on any reals.
//!
//! `KILN_FUZZ_DEVICE` names the device (the CPU if unset), `KILN_FUZZ_CASES`
//! the programs of each test, `KILN_FUZZ_SEED` what to draw.

#[cfg(feature = "cuda")]
#[path = "support/machine_code.rs"]
mod machine_code;
mod support;

use std::cell::RefCell;

use kiln::plan::context::{Context, with_context};
use kiln::unstable::ir::{AluOp, Monoid};
use kiln::unstable::kernel::{Expr, ExprNode};
use kiln::unstable::runtime::Capabilities;
use kiln::unstable::runtime::null::{self, NullBackend};
use kiln::{DType, Device};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use support::broken::{BrokenBackend, Bug};
use support::census::{Census, required};
use support::comparison::{alone, in_little_memory, warm_and_cold};
use support::device;
use support::random_graph::{Program, Size, Variant, programs, programs_with_gradients, sized_programs};
use support::random_leaf::Mode;

/// Programs of each of the four properties.
const CASES: u32 = 1500;
/// Programs whose gradients are compared.
const GRADIENT_CASES: u32 = 1000;
/// With fewer programs than this, rare things may be missing.
const ENOUGH: u32 = 1000;

/// A runner that draws the same programs every time.
fn runner(cases: u32, seed: u32) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.wrapping_add(device::setting("KILN_FUZZ_SEED", 0)).to_le_bytes());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Compares programs of one mode and asserts what they covered.
fn fuzz(mode: Mode, special: bool) {
    let cases = device::setting("KILN_FUZZ_CASES", CASES);
    let census = RefCell::new(Census::default());
    let seed = u32::from(special) + if mode == Mode::Smooth { 2 } else { 0 };
    let property = |program: Program| alone(&program, device::under_test(), &mut census.borrow_mut());
    if let Err(failure) = runner(cases, seed).run(&programs(mode, special), property) {
        panic!("{failure}");
    }
    let census = census.into_inner();
    assert_eq!(census.count("programs"), u64::from(cases));
    if cases >= ENOUGH {
        let required = required(mode, special);
        census.require(1, required.iter().map(String::as_str));
    }
    let refused = census.count("refused");
    assert!(
        2 * refused <= u64::from(cases),
        "{refused} of {cases} programs need types that the device lacks"
    );
    if std::env::var("KILN_FUZZ_CENSUS").is_ok() {
        println!("{census:#?}");
    }
}

#[test]
fn small_integers_agree_bit_by_bit() {
    fuzz(Mode::Exact, false);
}

#[test]
fn small_integers_nan_and_infinities_agree_bit_by_bit() {
    fuzz(Mode::Exact, true);
}

#[test]
fn reals_agree_within_bounds() {
    fuzz(Mode::Smooth, false);
}

#[test]
fn reals_nan_and_infinities_agree_within_bounds() {
    fuzz(Mode::Smooth, true);
}

/// Programs on values that fill several blocks and tiles, on any thread.
fn fuzz_large(mode: Mode) {
    let cases = device::setting("KILN_FUZZ_CASES", CASES) / 25;
    let census = RefCell::new(Census::default());
    let property = |program: Program| alone(&program, device::under_test(), &mut census.borrow_mut());
    let programs = sized_programs(mode, false, Size::Large, 12);
    if let Err(failure) = runner(cases, 6).run(&programs, property) {
        panic!("{failure}");
    }
    let census = census.into_inner();
    if cases >= ENOUGH / 25 {
        census.require(1, ["contract", "expand", "permute", "where", "compared rank 2", "compared f32"]);
    }
}

#[test]
fn small_integers_in_large_values_agree_bit_by_bit() {
    fuzz_large(Mode::Exact);
}

#[test]
fn reals_in_large_values_agree_within_bounds() {
    fuzz_large(Mode::Smooth);
}

/// Programs whose results include the gradients of their leaves.
#[test]
fn gradients_agree_within_bounds() {
    let cases = device::setting("KILN_FUZZ_CASES", GRADIENT_CASES);
    let census = RefCell::new(Census::default());
    let property = |program: Program| alone(&program, device::under_test(), &mut census.borrow_mut());
    if let Err(failure) = runner(cases, 7).run(&programs_with_gradients(), property) {
        panic!("{failure}");
    }
    let compared = census.into_inner().count("gradients");
    assert!(cases < ENOUGH || compared > u64::from(cases) * 5, "only {compared} gradients were compared");
}

/// Programs within budgets.
fn fuzz_budgets(cases: u32, seed: u32, programs: impl Strategy<Value = Program>) -> Census {
    let census = RefCell::new(Census::default());
    let property = |program: Program| in_little_memory(&program, Device::cpu(), &mut census.borrow_mut());
    if let Err(failure) = runner(cases, seed).run(&programs, property) {
        panic!("{failure}");
    }
    let census = census.into_inner();
    let (less, chunks) = (census.count("programs in less memory"), census.count("programs in chunks"));
    assert!(cases < ENOUGH || less > u64::from(cases) / 50, "only {less} programs did with less");
    assert!(cases < ENOUGH || chunks > u64::from(cases) / 200, "only {chunks} programs ran in chunks");
    census
}

/// What is computed again, not to be kept, is the same; what is computed in
/// chunks is as exact.
#[test]
fn gradients_in_little_memory_agree_within_bounds() {
    fuzz_budgets(device::setting("KILN_FUZZ_CASES", GRADIENT_CASES), 9, programs_with_gradients());
}

/// Sums of small integers are exact in any order.
#[test]
fn small_integers_in_little_memory_agree_bit_by_bit() {
    let programs = sized_programs(Mode::Exact, false, Size::Large, 12);
    fuzz_budgets(device::setting("KILN_FUZZ_CASES", CASES) / 5, 10, programs);
}

#[test]
fn the_null_device_runs_every_program() {
    let property = |program: Program| {
        let context = Context::new();
        let result = with_context(&context, || {
            let built = program.build(Variant { device: Device::null(), ..Variant::default() });
            kiln::realize(&built.outputs.iter().collect::<Vec<_>>())
        });
        prop_assert!(result.is_ok(), "{:?}", result);
        Ok(())
    };
    let result = runner(CASES, 4).run(&programs(Mode::Smooth, true), property);
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

/// NVIDIA's compiler takes the kernels of every program, for each generation.
#[cfg(feature = "cuda")]
#[test]
fn kernels_compile_for_gpus() {
    /// Programs, as compiling takes long.
    const PROGRAMS: u32 = 60;
    if !machine_code::is_there() {
        return;
    }
    let compiled = std::cell::Cell::new(0);
    let property = |program: Program| {
        with_context(&Context::new(), || {
            let built = program.build(Variant { device: Device::null(), ..Variant::default() });
            // Programs with mistakes in them have no plan.
            let Ok(report) = kiln::plan(&built.outputs.iter().collect::<Vec<_>>()) else { return Ok(()) };
            for kernel in &report.kernels {
                let count = machine_code::compile(kernel.work()).map_err(TestCaseError::fail)?;
                compiled.set(compiled.get() + count);
            }
            Ok(())
        })
    };
    let cases = device::setting("KILN_FUZZ_CASES", PROGRAMS);
    if let Err(failure) = runner(cases, 10).run(&programs_with_gradients(), property) {
        panic!("{failure}");
    }
    assert!(compiled.get() >= 2 * cases as usize, "only {} kernels in {cases} programs", compiled.get());
}

/// No kernel binds more buffers than the device can, whatever is fused.
#[test]
fn a_device_of_few_bindings_runs_every_program() {
    let property = |program: Program| {
        let context = Context::new();
        let capabilities = Capabilities { max_bindings: 4, ..null::CAPABILITIES };
        context.install(std::sync::Arc::new(NullBackend::new(capabilities)));
        let result = with_context(&context, || {
            let built = program.build(Variant { device: Device::null(), ..Variant::default() });
            kiln::realize(&built.outputs.iter().collect::<Vec<_>>())
        });
        prop_assert!(result.is_ok(), "{:?}", result);
        Ok(())
    };
    let result = runner(CASES, 8).run(&programs_with_gradients(), property);
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

/// Bugs that a compiler may have. Any programs find those of the first list,
/// programs on reals also those of the second.
const GROSS: &[(&str, Bug)] = &[
    ("subtracts instead of adding", |node| rename(node, AluOp::Add, AluOp::Sub)),
    ("takes the maximum for the minimum", |node| rename(node, AluOp::Min, AluOp::Max)),
    ("takes less for equal", |node| rename(node, AluOp::Eq, AluOp::Lt)),
    ("swaps the operands of a difference", |node| swap(node, AluOp::Sub, 0, 1)),
    ("swaps the branches of a selection", |node| swap(node, AluOp::Where, 1, 2)),
    ("pads one element too much", |node| {
        if let Expr::Load(_, access) = &mut node.expr {
            access.guard.within.iter_mut().for_each(|within| within.low += 1);
        }
    }),
    ("adds where the largest is wanted", |node| {
        if let Expr::Reduce(monoid @ Monoid::Max, _) = &mut node.expr {
            *monoid = Monoid::Sum;
        }
    }),
    ("takes a running maximum for a running sum", |node| {
        if let Expr::Scan(monoid @ Monoid::Sum, ..) = &mut node.expr {
            *monoid = Monoid::Max;
        }
    }),
];
const SUBTLE: &[(&str, Bug)] = &[
    ("takes powers of 2 for those of e", |node| rename(node, AluOp::Exp, AluOp::Exp2)),
    ("takes the error function for its kin", |node| rename(node, AluOp::Erf, AluOp::Tanh)),
    ("keeps 13 bits of single-precision constants", |node| {
        if let (Expr::Const(bits), DType::F32) = (&mut node.expr, node.dtype) {
            *bits &= 0xffff_f800;
        }
    }),
];

fn rename(node: &mut ExprNode, from: AluOp, to: AluOp) {
    if let Expr::Alu(op, _) = &mut node.expr
        && *op == from
    {
        *op = to;
    }
}

fn swap(node: &mut ExprNode, of: AluOp, i: usize, j: usize) {
    if let Expr::Alu(op, x) = &mut node.expr
        && *op == of
    {
        x.swap(i, j);
    }
}

/// Whether the fuzz of a mode finds a bug.
fn finds(bug: Bug, mode: Mode) -> bool {
    let property = |program: Program| {
        let context = Context::new();
        context.install(std::sync::Arc::new(BrokenBackend::new(bug)));
        with_context(&context, || warm_and_cold(&context, &program, Device::cpu(), &mut Census::default()))
    };
    let result = runner(CASES, 5).run(&programs(mode, false), property);
    matches!(result, Err(TestError::Fail(..)))
}

#[test]
fn a_compiler_with_a_bug_is_found_out() {
    let smooth = GROSS.iter().chain(SUBTLE).map(|bug| (bug, Mode::Smooth));
    for ((name, bug), mode) in GROSS.iter().map(|bug| (bug, Mode::Exact)).chain(smooth) {
        assert!(finds(*bug, mode), "{mode:?} programs agree on a device that {name}");
    }
}
