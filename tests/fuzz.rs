//! Random programs run fused on a device and agree with the oracle: cold,
//! warm with new data, and warm with other constants and sizes.

mod support;

use kiln::base::Device;
use kiln::ir::oracle::{Data, Value};
use kiln::plan::context::{Context, with_context};
use kiln::tensor::Tensor;
use proptest::prelude::*;
use support::random_graph::{Program, Variant, programs};
use support::random_leaf::Mode;

/// Cases of each property.
const CASES: u32 = 700;

/// Values as bits, every NaN the same.
fn bits(value: &Value) -> Vec<u64> {
    match &value.data {
        Data::Int(data) => data.iter().map(|&x| x as u64).collect(),
        // Exact arithmetic may lose the sign of a zero in another order.
        Data::Float(data) => {
            data.iter().map(|&x| if x.is_nan() { u64::MAX } else { (x + 0.0).to_bits() }).collect()
        }
    }
}

/// Runs a variant and compares every result with the oracle, bit by bit.
fn agrees(program: &Program, variant: Variant) -> Result<(), TestCaseError> {
    let expected = program.build_variant(variant);
    let found = program.build_variant(variant);
    let expected = Tensor::oracle(&expected.iter().collect::<Vec<_>>())
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    let refs: Vec<&Tensor> = found.iter().collect();
    kiln::realize(&refs).map_err(|e| TestCaseError::fail(e.to_string()))?;
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let value = Tensor::oracle(&[found]).map_err(|e| TestCaseError::fail(e.to_string()))?.remove(0);
        prop_assert_eq!(&expected.ty, &value.ty);
        prop_assert_eq!(bits(expected), bits(&value), "output {} of {:?}", i, variant);
    }
    Ok(())
}

fn warm_and_cold(program: &Program) -> Result<(), TestCaseError> {
    let context = Context::new();
    with_context(&context, || {
        let variant = |data, constants, sizes| Variant { data, constants, sizes, device: Device::cpu() };
        agrees(program, variant(0, 0, 0))?;
        let cold = context.counters();
        agrees(program, variant(1, 0, 0))?;
        prop_assert_eq!(context.counters().plans_built, cold.plans_built, "new data planned again");
        agrees(program, variant(2, 1, 0))?;
        agrees(program, variant(3, 2, 0))?;
        agrees(program, variant(4, 3, 1))?;
        agrees(program, variant(5, 4, 2))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_integers_agree_bit_by_bit(program in programs(Mode::Exact, false)) {
        warm_and_cold(&program)?;
    }

    #[test]
    fn nan_and_infinities_agree_bit_by_bit(program in programs(Mode::Exact, true)) {
        warm_and_cold(&program)?;
    }

    #[test]
    fn the_null_device_runs_every_program(program in programs(Mode::Smooth, true)) {
        let context = Context::new();
        let result = with_context(&context, || {
            let outputs = program.build_variant(Variant { device: Device::null(), ..Variant::default() });
            kiln::realize(&outputs.iter().collect::<Vec<_>>())
        });
        prop_assert!(result.is_ok(), "{:?}", result);
    }
}
