//! The final lowering of every group. A kernel that binds more buffers than the device
//! allows is split into its nodes.

use crate::ir::NodeId;
use crate::kernel::{Blocker, LoweredKernel, Request, Role, lower};
use crate::schedule::fuse::{Fusion, FusionGroup, FusionState, GroupId};
use crate::schedule::fusion_class::FusionClass;

impl FusionState<'_> {
    /// Lowers every group; one that no longer lowers is split into its nodes.
    pub(super) fn lower_groups(mut self) -> Fusion {
        let mut number = 0;
        while number < self.groups.len() {
            if self.groups[number].is_some() {
                self.lower_group(number as GroupId);
            }
            number += 1;
        }
        Fusion { groups: self.groups.into_iter().flatten().collect(), refusals: self.refusals }
    }

    pub(super) fn lower_group(&mut self, number: GroupId) {
        let group = self.group(number);
        let leader = group.roots[0];
        if self.classes[leader.index()] == FusionClass::Opaque {
            return;
        }
        let roots = group.roots.clone();
        match self.lower(&[number], None, &roots) {
            Ok(call) => self.group_mut(number).call = Some(call),
            Err(_) if group.members.len() > 1 => self.split_group(number),
            Err(_) if self.store_duplicated(number) => self.lower_group(number),
            Err(blocker) => match self.lower_alone(number, &roots) {
                Ok(call) => self.group_mut(number).call = Some(call),
                Err(_) => panic!("{} alone does not lower: {blocker}", self.graph.node(leader).op.name()),
            },
        }
    }

    /// A single node's kernel, whatever it costs.
    pub(super) fn lower_alone(&self, number: GroupId, roots: &[NodeId]) -> Result<LoweredKernel, Blocker> {
        let inside = |id: NodeId| {
            let moves = self.classes[id.index()] == FusionClass::Movement && !self.stored[id.index()];
            self.group_of[id.index()] == Some(number) || moves || self.duplicated[id.index()]
        };
        let role = |id: NodeId| if inside(id) { Role::Inside } else { Role::Buffer };
        lower(&Request { graph: self.graph, roots, role: &role, layouts: self.context.layouts })
    }

    /// Stores the values that a group duplicates, and reads them instead; whether
    /// there are any. Each brought buffers of its own.
    fn store_duplicated(&mut self, number: GroupId) -> bool {
        let mut duplicates: Vec<NodeId> = Vec::new();
        let mut pending = self.group(number).members.clone();
        while let Some(id) = pending.pop() {
            for &operand in &self.graph.node(id).operands {
                let index = operand.index();
                if self.duplicated[index] {
                    self.duplicated[index] = false;
                    duplicates.push(operand);
                } else if self.classes[index] == FusionClass::Movement && !self.stored[index] {
                    pending.push(operand);
                }
            }
        }
        duplicates.iter().for_each(|&id| self.store_alone(id));
        !duplicates.is_empty()
    }

    /// Computes a node by a kernel of its own.
    fn store_alone(&mut self, id: NodeId) {
        self.stored[id.index()] = true;
        self.group_of[id.index()] = Some(self.groups.len() as GroupId);
        self.groups.push(Some(FusionGroup { members: vec![id], roots: vec![id], ..FusionGroup::default() }));
    }

    pub(super) fn split_group(&mut self, number: GroupId) {
        let Some(group) = self.groups[number as usize].take() else { return };
        group.members.iter().for_each(|&member| self.store_alone(member));
    }
}
