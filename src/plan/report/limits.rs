//! The parts of a plan that a device of some limits would not run, and why; no such
//! device is needed.

use std::fmt;

use crate::base::{DType, Span};
use crate::kernel::{Kernel, Workload};
use crate::plan::report::{KernelReport, PlanReport};
use crate::render::attention::AttentionExtents;
use crate::render::{GpuTarget, Shader, Unsupported, wgsl};

/// A part of a plan that a device would not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedPart {
    /// The kernel's number in [`PlanReport::kernels`]; `None` for the memory of
    /// intermediates.
    pub kernel: Option<usize>,
    /// The kernel's name, or what the memory is for.
    pub name: String,
    /// The user's line that it comes from, where there is one.
    pub at: Option<Span>,
    /// Why.
    pub reason: Unsupported,
}

impl fmt::Display for UnsupportedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.to_string().replace("{adapter}", "a device of these limits");
        match (self.kernel, self.at) {
            (Some(number), Some(at)) => write!(f, "kernel {number}, {} at {at}: {reason}", self.name),
            (Some(_) | None, _) => write!(f, "{}: {reason}", self.name),
        }
    }
}

impl PlanReport {
    /// What of this plan would not run on a WebGPU device that offers no more
    /// than these limits: every kernel and all memory that exceed them, with
    /// the reason. Empty if all of it runs.
    ///
    /// Planning for such a device may avoid some of it: it splits kernels with
    /// more inputs than the device binds. Attention in one kernel, which not every
    /// device has a template for, counts as the kernels it is without.
    pub fn check(&self, limits: &GpuTarget) -> Vec<UnsupportedPart> {
        let mut found = Vec::new();
        for (number, kernel) in self.kernels.iter().enumerate() {
            let reasons = reasons(kernel, limits).into_iter();
            found.extend(reasons.map(|reason| UnsupportedPart {
                kernel: Some(number),
                name: kernel.name.clone(),
                at: Some(kernel.at),
                reason,
            }));
        }
        for memory in self.memory.iter().filter(|memory| memory.intermediates > limits.max_buffer) {
            found.push(UnsupportedPart {
                kernel: None,
                name: format!("intermediates on {}", memory.device),
                at: None,
                reason: Unsupported::Buffer { bytes: memory.intermediates, limit: limits.max_buffer },
            });
        }
        found
    }
}

/// Why a kernel would not run.
fn reasons(kernel: &KernelReport, limits: &GpuTarget) -> Vec<Unsupported> {
    let mut sizes = match kernel.work() {
        Workload::Kernel(kernel) => buffers(kernel),
        Workload::Sort(sort) => [(sort.result(), DType::I64), (sort.shape.clone(), sort.dtype)]
            .map(|(shape, dtype)| (shape.numel() * dtype.size()) as u64)
            .to_vec(),
        Workload::Joint(joint) => joint.kernels().flat_map(buffers).collect(),
        Workload::Custom(..) => Vec::new(),
    };
    let mut reasons = Vec::new();
    match wgsl::render_work(kernel.work(), limits) {
        // Planned for such limits, it would be kernels that write its scores.
        Err(Unsupported::Template(_) | Unsupported::Iterations { .. }) if scores(kernel.work()).is_some() => {
            sizes.extend(scores(kernel.work()));
        }
        Err(reason) => reasons.push(reason),
        Ok(None) => {}
        Ok(Some(shader)) => {
            sizes.extend(shader.scratch.iter().map(|&bytes| bytes as u64));
            reasons.extend(too_many_groups(&shader, limits));
        }
    }
    let largest = sizes.into_iter().max().filter(|&bytes| bytes > limits.max_buffer);
    reasons.extend(largest.map(|bytes| Unsupported::Buffer { bytes, limit: limits.max_buffer }));
    reasons
}

/// Bytes of an attention's scores.
fn scores(work: &Workload) -> Option<u64> {
    let Workload::Kernel(kernel) = work else { return None };
    let AttentionExtents { batch, rows, keys, .. } = AttentionExtents::of(kernel, kernel.attention()?);
    Some((batch * rows).saturating_mul(keys).saturating_mul(DType::F32.size()) as u64)
}

/// Bytes of each value that a kernel reads or writes.
fn buffers(kernel: &Kernel) -> Vec<u64> {
    let bytes = |numel: usize, size: usize| (numel as u64).saturating_mul(size as u64);
    let inputs = kernel.inputs.iter().map(|input| bytes(input.numel, input.dtype.size()));
    let stores = kernel.stores.iter().map(|store| bytes(store.numel, store.dtype.size()));
    let scatter = kernel.scatter().into_iter().map(|scatter| bytes(scatter.numel, scatter.dtype.size()));
    inputs.chain(stores).chain(scatter).collect()
}

fn too_many_groups(shader: &Shader, limits: &GpuTarget) -> Option<Unsupported> {
    let most = u64::from(limits.max_groups).pow(2);
    let groups = shader.passes.iter().map(|pass| pass.workgroups).max()?;
    (groups > most).then_some(Unsupported::Groups { found: groups, limit: most })
}
