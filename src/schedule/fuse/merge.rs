//! Horizontal fusion: merging kernels that read the same value.

use smallvec::SmallVec;

use crate::ir::NodeId;
use crate::kernel::Blocker;
use crate::schedule::fuse::reachability::Dependence;
use crate::schedule::fuse::{FusionGroup, FusionState, GroupId, GroupReaders, MAX_MEMBERS, add_readers};
use crate::schedule::fusion_class::{FusionClass, read_operands};

/// Kernels reading one value that are considered for merging with each other.
const MAX_SIBLINGS: usize = 8;

impl FusionState<'_> {
    /// Merges kernels that read the same value, where they can share a kernel.
    pub(super) fn merge_readers(&mut self, readers: &mut GroupReaders) {
        if readers.len() > MAX_SIBLINGS {
            return;
        }
        let mut kept = GroupReaders::new();
        for &reader in readers.iter() {
            let into = kept.iter().copied().find(|&other| self.try_merge(other, reader));
            if into.is_none() {
                kept.push(reader);
            }
        }
        *readers = kept;
    }

    /// Merges two groups that read the same value.
    pub(super) fn try_merge(&mut self, into: GroupId, from: GroupId) -> bool {
        match self.merged(into, from) {
            Ok(group) => {
                for &member in &group.members {
                    self.group_of[member.index()] = Some(into);
                }
                // GroupReaders are renamed lazily: members are few, nodes many.
                for readers in self.group(from).members.clone() {
                    for &operand in &self.graph.node(readers).operands.clone() {
                        self.rename_reader(operand, from, into);
                    }
                }
                self.groups[from as usize] = None;
                self.groups[into as usize] = Some(group);
                let (a, b) = (self.ends[into as usize], self.ends[from as usize]);
                self.extend(into, a.0.min(b.0), a.1.max(b.1));
                true
            }
            Err(blocker) => {
                self.refuse(self.group(from).roots[0], into, blocker);
                false
            }
        }
    }

    /// Renames a reader of a value, and of what it is moved from.
    pub(super) fn rename_reader(&mut self, id: NodeId, from: GroupId, into: GroupId) {
        let mut pending: SmallVec<[NodeId; 8]> = smallvec::smallvec![id];
        while let Some(node) = pending.pop() {
            let readers = &mut self.readers[node.index()];
            let Some(index) = readers.iter().position(|&reader| reader == from) else { continue };
            readers.remove(index);
            add_readers(readers, &[into]);
            let passes = self.classes[node.index()] == FusionClass::Movement || self.duplicated[node.index()];
            if passes && self.group_of[node.index()].is_none() {
                pending.extend(read_operands(self.graph.node(node)).iter().copied());
            }
        }
    }

    pub(super) fn merged(&self, into: GroupId, from: GroupId) -> Result<FusionGroup, Blocker> {
        let (a, b) = (self.group(into), self.group(from));
        for leader in [a.roots[0], b.roots[0]] {
            if matches!(self.classes[leader.index()], FusionClass::Opaque | FusionClass::Scatter) {
                return Err(Blocker::Opaque(self.graph.node(leader).op.name()));
            }
        }
        if a.contraction && b.contraction {
            return Err(Blocker::Contraction);
        }
        if self.graph.ty(a.roots[0]).device != self.graph.ty(b.roots[0]).device {
            return Err(Blocker::Opaque("copy"));
        }
        if a.members.len() + b.members.len() > MAX_MEMBERS {
            return Err(Blocker::TooLarge(MAX_MEMBERS));
        }
        for (a, b) in [(into, from), (from, into)] {
            match self.depends_indirectly(a, b) {
                Dependence::No => {}
                Dependence::Yes => return Err(Blocker::Cycle),
                Dependence::Unknown => return Err(Blocker::Distant),
            }
        }
        let mut roots: Vec<NodeId> = a.roots.iter().chain(&b.roots).copied().collect();
        roots.sort_unstable();
        self.lower(&[into, from], None, &roots)?;
        let members = a.members.iter().chain(&b.members).copied().collect();
        Ok(FusionGroup {
            members,
            roots,
            call: None,
            structural: a.structural || b.structural,
            contraction: a.contraction || b.contraction,
        })
    }

    /// Merges kernels that read the same stored value and have the same iteration space.
    pub(super) fn merge_siblings(&mut self) {
        for id in self.graph.ids() {
            let in_memory = self.classes[id.index()] == FusionClass::Input || self.stored[id.index()];
            let readers = self.readers[id.index()].clone();
            if !in_memory || !(2..=MAX_SIBLINGS).contains(&readers.len()) {
                continue;
            }
            let mut kept = GroupReaders::new();
            for &reader in &readers {
                let own = self.group_of[id.index()] == Some(reader);
                let alike = |other: GroupId| self.same_iteration_space(id, other, reader);
                let candidates: GroupReaders = kept.iter().copied().filter(|&o| !own && alike(o)).collect();
                if !candidates.into_iter().any(|other| self.try_merge(other, reader)) && !own {
                    kept.push(reader);
                }
            }
        }
    }

    /// Whether two kernels range over the value they share in the same way.
    pub(super) fn same_iteration_space(&self, shared: NodeId, a: GroupId, b: GroupId) -> bool {
        let (a, b) = (self.group(a), self.group(b));
        let numel = |group: &FusionGroup| group.roots.iter().map(|&r| self.graph.ty(r).shape.numel()).max();
        let large = self.graph.ty(shared).shape.numel() * 4 >= numel(a).max(numel(b)).unwrap_or(0);
        large && numel(a) == numel(b) && !a.contraction && !b.contraction
    }
}
