//! How near the memory between steps comes to what liveness asks for.

use std::collections::HashMap;

use crate::base::Device;
use crate::ir::NodeId;
use crate::nn::{Layer, ModuleExt, Sequential, TransformerEncoderLayer, TransformerOpts};
use crate::plan::context::Context;
use crate::plan::realize::planned;
use crate::schedule::{Location, ScheduledGraph};
use crate::tensor::Tensor;

/// The most bytes of values between steps that must be there at once in the
/// steps' order, if each step may write over all that it is the last to read.
fn lower_bound(schedule: &ScheduledGraph) -> usize {
    let memory = &schedule.memory;
    let bytes = |id: &NodeId| match memory.locations.get(id) {
        Some(Location::Arena(_)) => schedule.graph.ty(*id).bytes(),
        Some(Location::Param(_) | Location::Result(..)) | None => 0,
    };
    let mut last: HashMap<NodeId, usize> = HashMap::new();
    for (now, step) in schedule.steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|input| schedule.graph.pieces(input));
        last.extend(read.chain(&step.outputs).map(|&id| (id, now)));
    }
    let (mut held, mut most) = (0, 0);
    for (now, step) in schedule.steps.iter().enumerate() {
        let written: usize = step.outputs.iter().map(bytes).sum();
        let mut read: Vec<&NodeId> = step.inputs.iter().flat_map(|id| schedule.graph.pieces(id)).collect();
        read.sort_unstable();
        read.dedup();
        let dying: usize = read.into_iter().filter(|id| last[id] == now).map(bytes).sum();
        most = most.max(held + written - written.min(dying));
        let unread: usize = step.outputs.iter().filter(|id| last[id] == now).map(bytes).sum();
        held = held + written - dying - unread;
    }
    most
}

#[test]
fn training_of_48_blocks_holds_little_more_than_liveness_asks_for() {
    let place = Device::null();
    let opts = TransformerOpts::default().feed_forward(256);
    let block = |_| TransformerEncoderLayer::new(64, 4, opts.clone(), place);
    let model = (0..48).map(block).fold(Sequential::new(), Sequential::push);
    let loss = model.forward(&Tensor::ones([8, 32, 64], place).materialize()).square().mean(..);
    let parameters: Vec<Tensor> = model.parameters().iter().map(|p| p.get()).collect();
    let gradients = crate::grad::grad(&loss, &parameters.iter().collect::<Vec<_>>());
    let asked = std::iter::once(&loss).chain(&gradients);
    let nodes: Vec<_> = asked.map(|x| x.node().expect("no error").clone()).collect();
    let plan = planned(&Context::new(), &nodes);
    let bound = lower_bound(&plan.schedule);
    let taken: usize = plan.schedule.memory.arenas.iter().map(|arena| arena.1).sum();
    assert!(plan.schedule.steps.len() > 48 * 20 && bound > 48 << 20, "{bound}");
    assert!(taken >= bound && taken * 10 <= bound * 11, "{taken} bytes, {bound} at least");
}
