//! The model of a training, alone or on several ranks, and its mode.

use crate::base::{Result, Span};
use crate::dist::{Ddp, Group};
use crate::nn::{Found, Module, ModuleExt};
use crate::plan;

/// A model that one process or all ranks of a group train.
pub(super) enum Model<M> {
    Alone(M),
    Shared(Ddp<M>),
}

impl<M: Module> Model<M> {
    pub fn module(&self) -> &M {
        match self {
            Model::Alone(module) => module,
            Model::Shared(ddp) => ddp.module(),
        }
    }

    pub fn into_module(self) -> M {
        match self {
            Model::Alone(module) => module,
            Model::Shared(ddp) => ddp.into_inner(),
        }
    }

    pub fn group(&self) -> Option<&Group> {
        match self {
            Model::Alone(_) => None,
            Model::Shared(ddp) => Some(ddp.group()),
        }
    }

    pub fn rank(&self) -> usize {
        self.group().map_or(0, Group::rank)
    }

    pub fn ranks(&self) -> usize {
        self.group().map_or(1, Group::size)
    }

    pub fn before_forward(&self) -> Result<()> {
        match self {
            Model::Alone(_) => Ok(()),
            Model::Shared(ddp) => ddp.before_forward(),
        }
    }

    /// Makes buffers the same on all ranks, now: before one of them saves, and before all evaluate.
    #[track_caller]
    pub fn settle(&self) -> Result<()> {
        let Model::Shared(ddp) = self else { return Ok(()) };
        ddp.sync_buffers()?;
        let buffers = ddp.named_buffers().into_iter().map(|(_, buffer)| buffer.get());
        let nodes = buffers.map(|buffer| buffer.node().cloned()).collect::<Result<Vec<_>>>()?;
        plan::realize(&nodes, Span::caller())
    }

    /// Runs the body; gradients stay this rank's own unless `meets`.
    pub fn accumulating<R>(&self, meets: bool, body: impl FnOnce() -> R) -> R {
        match self {
            Model::Shared(ddp) if !meets => ddp.no_sync(body),
            Model::Alone(_) | Model::Shared(_) => body(),
        }
    }
}

/// A module in evaluation, until it is dropped: then all of it is as it was.
pub(super) struct Evaluating<'a, M: Module> {
    module: &'a M,
    /// By switch, in order.
    were_on: Vec<bool>,
}

impl<M: Module> Evaluating<'_, M> {
    pub fn begin(module: &M) -> Evaluating<'_, M> {
        let mut were_on = Vec::new();
        module.each(&mut |_, part| {
            if let Found::Training(training) = part {
                were_on.push(training.is_on());
            }
        });
        module.eval();
        Evaluating { module, were_on }
    }
}

impl<M: Module> Drop for Evaluating<'_, M> {
    fn drop(&mut self) {
        let mut were_on = self.were_on.iter();
        self.module.each(&mut |_, part| {
            if let Found::Training(training) = part {
                training.set(were_on.next().copied().unwrap_or(true));
            }
        });
    }
}
