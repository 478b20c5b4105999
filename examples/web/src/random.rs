//! Random programs of kiln's own tests, beside its interpreter.

#[path = "../../../tests/support/agreement.rs"]
mod agreement;
#[path = "../../../tests/support/census.rs"]
#[allow(dead_code)] // the native tests use more of these
mod census;
#[path = "../../../tests/support/random_graph.rs"]
#[allow(dead_code)]
mod random_graph;
#[path = "../../../tests/support/random_leaf.rs"]
#[allow(dead_code)]
mod random_leaf;
#[path = "../../../tests/support/random_moves.rs"]
mod random_moves;
#[path = "../../../tests/support/random_steps.rs"]
#[allow(dead_code)]
mod random_steps;
#[path = "../../../tests/support/random_structure.rs"]
mod random_structure;

/// What random programs ask of the device under test.
mod device {
    use kiln::prelude::DType;

    /// Whether it computes with a type.
    pub fn has(dtype: DType) -> bool {
        dtype != DType::F64
    }
}

use agreement::{Checked, compare, failed};
use census::Census;
use kiln::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use random_graph::{Program, Variant, programs};
use random_leaf::Mode;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// Runs so many programs, the same every time, on a device that is open. Gives what differs from the interpreter's
/// values: bit by bit in every other program, else beyond the bounds it tells.
///
/// # Errors
/// The device has no such name.
#[wasm_bindgen]
pub async fn random_programs(device: String, count: u32) -> crate::Result<Vec<String>> {
    let device: Device = device.parse()?;
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]));
    let mut differences = Vec::new();
    for number in 0..count {
        let mode = if number.is_multiple_of(2) { Mode::Exact } else { Mode::Smooth };
        let drawn = programs(mode, number.is_multiple_of(3)).new_tree(&mut runner);
        let program = drawn.map_err(|reason| JsError::new(reason.message()))?.current();
        if let Err(difference) = agrees(&program, device).await {
            differences.push(format!("program {number}: {difference}"));
        }
    }
    Ok(differences)
}

async fn agrees(program: &Program, device: Device) -> Checked {
    let build = |device| program.build(Variant { device, ..Variant::default() });
    let (found, twin) = (build(device), build(Device::cpu()));
    realize_async(&found.outputs.iter().collect::<Vec<_>>()).await.map_err(failed)?;
    let here: Vec<Tensor> = found.outputs.iter().map(|output| output.to(Device::cpu())).collect();
    let here: Vec<&Tensor> = here.iter().collect();
    realize_async(&here).await.map_err(failed)?;
    let values = Tensor::oracle(&here).map_err(failed)?;
    compare(program.mode, &twin.outputs, &values, &mut Census::default())
}
