//! The last lowering of every kernel.

use crate::ir::NodeId;
use crate::kernel::{Blocker, Kernel, Request, Role, lower};
use crate::schedule::class::Class;
use crate::schedule::fuse::{Fusion, Group, GroupId, State};

impl State<'_> {
    /// Lowers every kernel for good; a group that no longer lowers falls
    /// apart into its nodes.
    pub(super) fn finish(mut self) -> Fusion {
        let mut number = 0;
        while number < self.groups.len() {
            if self.groups[number].is_some() {
                self.finish_group(number as GroupId);
            }
            number += 1;
        }
        Fusion { groups: self.groups.into_iter().flatten().collect(), refusals: self.refusals }
    }

    pub(super) fn finish_group(&mut self, number: GroupId) {
        let group = self.group(number);
        let leader = group.roots[0];
        if self.classes[leader.index()] == Class::Opaque {
            return;
        }
        let roots = group.roots.clone();
        match self.lower(&[number], None, &roots) {
            Ok(kernel) => self.group_mut(number).kernel = Some(kernel),
            Err(_) if group.members.len() > 1 => self.fall_apart(number),
            Err(blocker) => match self.lower_alone(number, &roots) {
                Ok(kernel) => self.group_mut(number).kernel = Some(kernel),
                Err(_) => panic!("{} alone does not lower: {blocker}", self.graph.node(leader).op.name()),
            },
        }
    }

    /// A single node's kernel, whatever it costs.
    pub(super) fn lower_alone(&self, number: GroupId, roots: &[NodeId]) -> Result<Kernel, Blocker> {
        let inside = |id: NodeId| {
            let moves = self.classes[id.index()] == Class::Movement && !self.stored[id.index()];
            self.group_of[id.index()] == Some(number) || moves || self.duplicated[id.index()]
        };
        let role = |id: NodeId| if inside(id) { Role::Inside } else { Role::Buffer };
        lower(&Request { graph: self.graph, roots, role: &role, layouts: self.context.layouts })
    }

    pub(super) fn fall_apart(&mut self, number: GroupId) {
        let Some(group) = self.groups[number as usize].take() else { return };
        for &member in &group.members {
            self.stored[member.index()] = true;
            let apart = self.groups.len() as GroupId;
            self.groups.push(Some(Group { members: vec![member], roots: vec![member], ..Group::default() }));
            self.group_of[member.index()] = Some(apart);
        }
    }
}
