//! State divided among ranks: each remembers for some of the parameters what the rule remembers, makes their steps,
//! and gives the new values to the others.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::ir::collective::{Channel, CollectiveKind};
use crate::optim::group::ParamSlot;
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;

/// The rank that remembers a parameter's state.
#[derive(Clone, Debug)]
pub(super) struct StateOwner {
    channel: Arc<dyn Channel>,
    pub rank: usize,
}

impl StateOwner {
    pub fn is_this_rank(&self) -> bool {
        self.channel.rank() == self.rank
    }

    /// What the owner has, on every rank; of what the others give, only shape and type count.
    pub fn broadcast(&self, site: CallSite, x: &Tensor) -> Tensor {
        collective(site, CollectiveKind::Broadcast { root: self.rank }, &self.channel, x)
    }
}

/// Ranks that divide the state of an optimizer.
#[derive(Debug)]
pub(super) struct StateRanks {
    channel: Arc<dyn Channel>,
    /// By rank: of the parameters whose state it remembers.
    bytes: Vec<usize>,
}

impl StateRanks {
    pub fn new(channel: Arc<dyn Channel>) -> StateRanks {
        StateRanks { bytes: vec![0; channel.size()], channel }
    }

    /// Gives each parameter to the rank that has the least, the largest first; every rank comes to the same result.
    pub fn divide<'a>(&mut self, slots: impl Iterator<Item = &'a mut ParamSlot>) {
        let bytes = |slot: &ParamSlot| slot.param.get().numel() * slot.param.get().dtype().size();
        let mut slots: Vec<&mut ParamSlot> = slots.collect();
        slots.sort_by_key(|slot| Reverse(bytes(slot)));
        for slot in slots {
            let Some(rank) = (0..self.bytes.len()).min_by_key(|&rank| self.bytes[rank]) else { return };
            self.bytes[rank] += bytes(slot);
            slot.owner = Some(StateOwner { channel: self.channel.clone(), rank });
            if !slot.is_remembered_here() {
                slot.state = Vec::new();
            }
        }
    }
}
