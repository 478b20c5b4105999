//! Collectives: what this rank has, given to the others of its group, and what it gets for that.

use crate::base::Result;
use crate::ir::collective::CollectiveKind;
use crate::plan::context::add;
use crate::plan::run::Execution;
use crate::plan::transfer::read_dense;
use crate::runtime::trace::{self, Activity};
use crate::schedule::Step;

impl Execution<'_> {
    /// Takes part in a collective. The data pass through the memory of the host.
    ///
    /// It runs on the thread that realizes: one of a device's pool that waited here could keep the other ranks, if
    /// they are threads of this process, from ever coming.
    pub(super) fn collective(&self, step: &Step, kind: CollectiveKind) -> Result<()> {
        let graph = &self.plan.schedule.graph;
        let (from, to) = (step.inputs[0], step.outputs[0]);
        let Some(channel) = (self.channel)(to) else { panic!("{kind} of no group in\n{graph:?}") };
        let span = (self.call)(to).map_or(graph.node(to).span, |call| call.span);
        let _span = trace::span(Activity::Collective).at(span);
        let ty = graph.ty(from);
        let operand = read_dense(self.context, ty, &self.leaf(from))?;
        add(&self.context.counts.collectives, 1);
        let result = channel.run(kind, ty, span, &operand)?;
        if result.is_empty() {
            Ok(())
        } else {
            self.compiled.backend(step.device).write(self.binding(to), &result)
        }
    }
}
