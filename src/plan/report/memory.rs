//! The memory that a plan needs, by device.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::Device;
use crate::ir::Op;
use crate::ir::collect::Collected;
use crate::plan::build::Plan;
use crate::plan::context::Context;

/// The memory a plan needs on one device, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The device.
    pub device: Device,
    /// Memory of the inputs, there before and while the plan runs.
    pub inputs: u64,
    /// Results, those excepted that take over an input's memory.
    pub results: u64,
    /// Intermediates: values needed only between kernels, and scratch memory.
    pub intermediates: u64,
}

impl MemoryReport {
    fn new(device: Device) -> MemoryReport {
        MemoryReport { device, inputs: 0, results: 0, intermediates: 0 }
    }
    /// The most that is in use at once.
    pub fn peak(&self) -> u64 {
        self.inputs.saturating_add(self.results).saturating_add(self.intermediates)
    }
}

/// The memory that a plan needs for the graph it was looked up with.
pub(crate) fn needs(context: &Context, plan: &Plan, collected: &Collected) -> Vec<MemoryReport> {
    let mut memory = Vec::new();
    add_inputs(&mut memory, collected);
    add_steps(&mut memory, plan, 1);
    for &(device, bytes) in plan.scratch(context).iter().filter(|scratch| scratch.1 > 0) {
        let memory = memory_of(&mut memory, device);
        memory.intermediates = memory.intermediates.saturating_add(bytes);
    }
    memory
}

fn memory_of(memory: &mut Vec<MemoryReport>, device: Device) -> &mut MemoryReport {
    let known = memory.iter().position(|memory| memory.device == device);
    let number = known.unwrap_or_else(|| {
        memory.push(MemoryReport::new(device));
        memory.len() - 1
    });
    &mut memory[number]
}

/// Inputs' memory, each block once however many views there are of it.
fn add_inputs(memory: &mut Vec<MemoryReport>, collected: &Collected) {
    let mut seen = HashSet::new();
    for leaf in collected.leaves() {
        let Some(value) = leaf.value() else { continue };
        if seen.insert(Arc::as_ptr(&value.buffer)) {
            memory_of(memory, value.buffer.device).inputs += value.buffer.bytes as u64;
        }
    }
    for node in &collected.graph().nodes {
        if let Op::Leaf(ty) = &node.op {
            let memory = memory_of(memory, ty.device);
            memory.inputs = memory.inputs.saturating_add(ty.bytes() as u64);
        }
    }
}

/// Results and intermediates; a loop holds the results of two trips at a time.
fn add_steps(memory: &mut Vec<MemoryReport>, plan: &Plan, copies: u64) {
    let planned = &plan.schedule.memory;
    for &(device, bytes) in &planned.arenas {
        let memory = memory_of(memory, device);
        memory.intermediates = memory.intermediates.saturating_add(bytes as u64);
    }
    for result in planned.results.iter().filter(|result| result.donated.is_none()) {
        let bytes = (result.bytes as u64).saturating_mul(copies);
        let memory = memory_of(memory, result.device);
        let kind = if copies == 1 { &mut memory.results } else { &mut memory.intermediates };
        *kind = kind.saturating_add(bytes);
    }
    plan.bodies.values().for_each(|body| add_steps(memory, body, 2));
}
