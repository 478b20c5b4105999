//! Loops: a body's plan, run once per trip.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::base::Result;
use crate::ir::collect::collect;
use crate::ir::{Layout, Leaf, LoopSpec, Node, NodeId, Type};
use crate::plan::build::Plan;
use crate::plan::observe::ObservedRun;
use crate::plan::run::{Calls, Execution, run};
use crate::plan::transfer::read_dense;
use crate::runtime::Binding;
use crate::schedule::{Step, result_number};

impl Execution<'_> {
    /// Runs a loop's body once per trip. Carries are values that the body's
    /// plan hands on; stacked values are slices at a moving offset.
    pub(super) async fn repeat(&self, step: &Step, spec: &LoopSpec, body: &Arc<Plan>) -> Result<()> {
        let graph = &self.plan.schedule.graph;
        let backend = self.compiled.backend(step.device);
        let mut carries: Vec<Leaf> = step.inputs[..spec.carries].iter().map(|&id| self.leaf(id)).collect();
        let stacked: Vec<Leaf> =
            step.inputs[spec.carries..spec.carries + spec.stacked].iter().map(|&id| self.leaf(id)).collect();
        let invariants: Vec<Leaf> =
            step.inputs[spec.carries + spec.stacked..].iter().map(|&id| self.leaf(id)).collect();
        // As this loop has them: the plan may be another's.
        let collected = OnceCell::new();
        let call = |id| body.call(collected.get_or_init(|| collect(&spec.body.results).ok()).as_ref()?, id);
        let observed = self.observed.as_ref().and_then(|_| {
            let collected = collected.get_or_init(|| collect(&spec.body.results).ok()).as_ref()?;
            ObservedRun::of(body, collected)
        });
        for trip in 0..spec.trips {
            let slice = if spec.reverse { spec.trips - 1 - trip } else { trip };
            let number = Arc::new(backend.upload(&(slice as i64).to_ne_bytes())?);
            let scalar_layout = Layout { offset: 0, strides: Default::default() };
            let mut leaves = vec![Leaf { buffer: number, layout: scalar_layout }];
            leaves.append(&mut carries);
            leaves.extend(stacked.iter().map(|leaf| slice_of(leaf, slice)));
            leaves.extend(invariants.iter().cloned());
            let calls = Calls { call: &call, channel: &|_| None };
            let run = run(self.context, body, &leaves, self.scalars, calls, observed.clone(), self.waiting);
            let mut results = run.await?;
            for &output in &step.outputs {
                let result = result_number(graph, output);
                if result >= spec.carries {
                    self.store_slice(output, slice, &spec.body.results[result], &results[result]).await?;
                }
            }
            results.truncate(spec.carries);
            carries = results;
        }
        for &output in &step.outputs {
            let result = result_number(graph, output);
            if result < spec.carries {
                self.store(output, 0, graph.ty(output), &carries[result]).await?;
            }
        }
        Ok(())
    }

    async fn store_slice(&self, output: NodeId, slice: usize, result: &Node, value: &Leaf) -> Result<()> {
        self.store(output, slice * result.ty().bytes(), result.ty(), value).await
    }

    /// Copies a value to somewhere inside an output's memory.
    async fn store(&self, output: NodeId, at: usize, ty: &Type, value: &Leaf) -> Result<()> {
        let backend = self.compiled.backend(ty.device);
        let to = self.binding(output);
        let to = Binding { buffer: to.buffer, offset: to.offset + at };
        if value.layout.is_contiguous(&ty.shape) {
            let offset = value.layout.offset as usize * ty.dtype.size();
            return backend.copy(Binding { buffer: &value.buffer, offset }, to, ty.bytes());
        }
        let dense = read_dense(self.context, ty, value, self.waiting).await?;
        let uploaded = backend.upload(&dense)?;
        backend.copy(Binding { buffer: &uploaded, offset: 0 }, to, ty.bytes())
    }
}

/// Slice `n` along a leaf's leading axis.
fn slice_of(leaf: &Leaf, n: usize) -> Leaf {
    let mut layout = leaf.layout.clone();
    let stride = layout.strides.remove(0);
    layout.offset += n as i64 * stride;
    Leaf { buffer: leaf.buffer.clone(), layout }
}
