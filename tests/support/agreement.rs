//! What a device computed beside what the oracle says.

use kiln::tensor::Tensor;
use kiln::unstable::ir::oracle::{Bounded, Data, Value};
use proptest::prelude::*;

use super::census::Census;
use super::random_leaf::Mode;

pub type Checked<T = ()> = Result<T, TestCaseError>;

pub fn failed(error: kiln::Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

/// Compares values with what tensors on the CPU mean.
///
/// # Errors
/// What differs.
pub fn compare(mode: Mode, expected: &[Tensor], found: &[Value], census: &mut Census) -> Checked {
    let expected: Vec<&Tensor> = expected.iter().collect();
    match mode {
        Mode::Exact => {
            let expected = Tensor::oracle(&expected).map_err(failed)?;
            expected.iter().zip(found).enumerate().try_for_each(|(i, pair)| same_bits(i, pair.0, pair.1))?;
        }
        Mode::Smooth => {
            let expected = Tensor::oracle_bounded(&expected).map_err(failed)?;
            for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
                within_bounds(i, expected, found)?;
                tightness(expected, census);
            }
        }
    }
    found.iter().for_each(|value| census.result(value));
    Ok(())
}

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

fn same_bits(number: usize, expected: &Value, found: &Value) -> Checked {
    prop_assert_eq!(&expected.ty, &found.ty);
    prop_assert_eq!(bits(expected), bits(found), "result {}", number);
    Ok(())
}

fn within_bounds(number: usize, expected: &Bounded, found: &Value) -> Checked {
    prop_assert_eq!(&expected.value.ty, &found.ty);
    if let Some(at) = expected.disagreement(found, 1.0) {
        let (want, got) = (expected.value.to_f64()[at], found.to_f64()[at]);
        let message =
            format!("result {number}, element {at}: {got} is not {want} to {:e}", expected.error[at]);
        return Err(TestCaseError::fail(message));
    }
    Ok(())
}

/// Counts how much the bounds say.
fn tightness(expected: &Bounded, census: &mut Census) {
    for (x, &error) in expected.value.to_f64().iter().zip(&expected.error) {
        census.note("elements");
        census.add("elements known to 1 %", u64::from(error <= 0.01 * x.abs()));
        census.add("elements unknown", u64::from(error == f64::INFINITY));
    }
}
