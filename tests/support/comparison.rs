//! A program on the device under test against the oracle.

use kiln::Device;
use kiln::plan::context::{Context, with_context};
use kiln::tensor::Tensor;
use kiln::unstable::ir::DeviceBuffer;
use kiln::unstable::ir::oracle::Value;
use kiln::unstable::runtime::host;
use kiln::{Budget, Error, with_budget};
use proptest::prelude::*;

use super::agreement::{Checked, compare, failed};
use super::census::Census;
use super::device;
use super::random_graph::{Built, Program, Variant};
use super::random_leaf::Sharing;

/// Runs a program on `device` cold, warm on new data, and warm with other
/// constants, sizes, offsets, aliases and donation; compares every result
/// with the oracle.
///
/// # Errors
/// What differs.
pub fn warm_and_cold(context: &Context, program: &Program, device: Device, census: &mut Census) -> Checked {
    let like = |data, constants, sizes| Variant { data, constants, sizes, device, ..Variant::default() };
    census.note("programs");
    census.graph(&program.build_nodes(like(0, 0, 0)));
    let first = agrees(program, like(0, 0, 0), census)?;
    let cold = context.counters().plans_built;
    let again = agrees(program, like(0, 0, 0), census)?;
    prop_assert_eq!(first, again, "the same program on the same data gave other bits");
    agrees(program, like(1, 0, 0), census)?;
    prop_assert_eq!(context.counters().plans_built, cold, "new data planned again");
    let variants = [
        like(2, 1, 0),
        like(3, 2, 0),
        like(4, 2, 1),
        Variant { offset: 16, ..like(5, 2, 1) },
        Variant { sharing: Sharing::Always, ..like(6, 2, 0) },
        Variant { keep: 1, ..like(7, 2, 0) },
        Variant { keep: 2, sharing: Sharing::Never, offset: 3, ..like(8, 3, 2) },
    ];
    for variant in variants {
        let before = context.counters();
        agrees(program, variant, census)?;
        let after = context.counters();
        let resized = after.plans_resized - before.plans_resized;
        let warm = after.plans_built == before.plans_built && resized == 0;
        census.note(if warm { "warm without planning" } else { "planned again" });
        census.add("plans resized", resized);
    }
    Ok(())
}

/// Runs a variant and compares every result with the oracle; gives the
/// results' bits.
fn agrees(program: &Program, variant: Variant, census: &mut Census) -> Checked<Vec<Vec<u8>>> {
    let twin = program.build(Variant { device: Device::cpu(), ..variant });
    let found = program.build(variant);
    let before = values(&found.leaves)?;
    let memory: Vec<Option<Vec<u8>>> = found.memory.iter().map(|memory| contents(memory.upgrade())).collect();
    run(&found.outputs)?;
    census.add("aliased leaves", u64::from(found.leaf_count > found.memory.len()));
    census.add("leaf kept", found.leaves.len() as u64);
    census.add("leaf overwritten", overwritten(&found, &memory));
    census.add("gradients", found.gradients as u64);
    census.add("unasked value kept", found.inner.len() as u64);
    // What the caller kept is computed from what is left.
    run(&found.inner)?;
    for (before, after) in before.iter().zip(&values(&found.leaves)?) {
        prop_assert_eq!(before.to_bytes(), after.to_bytes(), "a leaf that the caller keeps changed");
    }
    let all = |built: &Built| built.outputs.iter().chain(&built.inner).cloned().collect::<Vec<_>>();
    let found = values(&all(&found))?;
    compare(program.mode, &all(&twin), &found, census).map_err(|e| e.context(variant))?;
    Ok(found.iter().map(Value::to_bytes).collect())
}

/// An added line of context.
trait InContext {
    fn context(self, variant: Variant) -> Self;
}

impl InContext for TestCaseError {
    fn context(self, variant: Variant) -> TestCaseError {
        TestCaseError::fail(format!("{self}\nin {variant:?}"))
    }
}

fn run(tensors: &[Tensor]) -> Checked {
    kiln::realize(&tensors.iter().collect::<Vec<_>>()).map_err(failed)
}

/// The values of realized tensors.
fn values(tensors: &[Tensor]) -> Checked<Vec<Value>> {
    let here: Vec<Tensor> = tensors.iter().map(|tensor| tensor.to(Device::cpu())).collect();
    run(&here)?;
    Tensor::oracle(&here.iter().collect::<Vec<_>>()).map_err(failed)
}

/// What lies in memory, where the test can see it.
fn contents(buffer: Option<std::sync::Arc<DeviceBuffer>>) -> Option<Vec<u8>> {
    buffer.filter(|buffer| buffer.device == Device::cpu()).map(|buffer| host::bytes(&buffer).to_vec())
}

/// How many leaves' buffers live on with other contents.
fn overwritten(built: &Built, before: &[Option<Vec<u8>>]) -> u64 {
    let after = built.memory.iter().map(|memory| contents(memory.upgrade()));
    after.zip(before).filter(|(after, before)| after.is_some() && after != *before).count() as u64
}

/// One program in a context of its own. One that needs a type which the device
/// lacks, for positions as data, say, is refused and counted.
///
/// # Errors
/// What differs.
pub fn alone(program: &Program, device: Device, census: &mut Census) -> Checked {
    let context = device::context(program.instructions.len());
    let result = with_context(&context, || warm_and_cold(&context, program, device, census));
    match result {
        Err(TestCaseError::Fail(reason)) if device::lacks_what_is_refused(reason.message()) => {
            census.note("refused");
            Ok(())
        }
        result => result,
    }
}

/// A program in as little memory as can be had has the bits that it has with as
/// much as it wants. If some of it is computed in chunks, what sums over them
/// is as close to the oracle.
///
/// # Errors
/// What differs.
pub fn in_little_memory(program: &Program, device: Device, census: &mut Census) -> Checked {
    let build = || program.build(Variant { device, ..Variant::default() });
    with_context(&Context::new(), || {
        let (free, kept, twin) = (build(), build(), build());
        run(&free.outputs)?;
        let wanted: Vec<&Tensor> = kept.outputs.iter().collect();
        let planned = kiln::plan(&wanted).map_err(failed)?;
        let Err(Error::OverBudget { least, .. }) = kiln::plan_with(&wanted, Budget::bytes(0)) else {
            prop_assert_eq!(planned.peak_bytes(), 0);
            return Ok(());
        };
        census.add("programs in less memory", u64::from(least < planned.peak_bytes()));
        let fitted = kiln::plan_with(&wanted, Budget::bytes(least)).map_err(failed)?;
        prop_assert!(fitted.peak_bytes() <= least);
        census.add("programs in chunks", u64::from(!fitted.in_chunks.is_empty()));
        with_budget(Budget::bytes(least), || run(&kept.outputs))?;
        let bytes = |built: &Built| -> Checked<Vec<Vec<u8>>> {
            Ok(values(&built.outputs)?.iter().map(Value::to_bytes).collect())
        };
        if fitted.in_chunks.is_empty() {
            prop_assert_eq!(bytes(&free)?, bytes(&kept)?);
        }
        compare(program.mode, &twin.outputs, &values(&kept.outputs)?, census)
    })
}
