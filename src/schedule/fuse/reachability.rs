//! Which group needs which, before the groups have an order.

use smallvec::SmallVec;

use crate::ir::{NodeId, Op};
use crate::schedule::fuse::{FusionState, GroupId, GroupReaders, add_readers};
use crate::schedule::fusion_class::FusionClass;

/// Nodes that a search looks at before it gives up. Groups so far apart in
/// the order would keep what they share in memory for as long.
const MAX_VISITS: usize = 1 << 11;

/// Whether one group needs another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    No,
    Yes,
    /// The search gave up. Counts as yes for whoever must not be wrong.
    Unknown,
}

/// The memory of searches, used again by each.
#[derive(Debug, Default)]
pub(super) struct QueryScratch {
    /// The number of the search going on.
    number: u32,
    /// By group, the last search that entered it.
    entered: Vec<u32>,
    /// By node, the last search that passed it, and whether that path had
    /// left the first group through another.
    passed: Vec<(u32, bool)>,
    pending: Vec<(NodeId, bool)>,
}

impl QueryScratch {
    fn begin(&mut self, groups: usize, nodes: usize) {
        self.number += 1;
        self.entered.resize(groups, 0);
        self.passed.resize(nodes, (0, false));
        self.pending.clear();
    }
    /// Whether this search enters the group for the first time.
    fn enters(&mut self, group: GroupId) -> bool {
        std::mem::replace(&mut self.entered[group as usize], self.number) != self.number
    }
    /// Whether this search has not passed the node, or only without leaving.
    fn passes(&mut self, id: NodeId, left: bool) -> bool {
        let (search, before) = self.passed[id.index()];
        let fresh = search != self.number || (left && !before);
        if fresh {
            self.passed[id.index()] = (self.number, left);
        }
        fresh
    }
}

impl FusionState<'_> {
    /// The groups that may not run before a value is there, though they do not
    /// read it.
    pub(super) fn waiters(&self, id: NodeId) -> GroupReaders {
        let mut waiters = GroupReaders::new();
        let Some(users) = &self.users else { return waiters };
        let mut pending: SmallVec<[(NodeId, bool); 8]> = smallvec::smallvec![(id, false)];
        while let Some((node, waits)) = pending.pop() {
            if waits {
                add_readers(&mut waiters, &self.readers[node.index()]);
                waiters.extend(self.group_of[node.index()]);
            }
            for &user in &users[node.index()] {
                let user_node = self.graph.node(user);
                let gate = matches!(user_node.op, Op::After) && user_node.operands[1] == node;
                // What no group computes by itself, its readers do; or nobody.
                if gate || !waits && self.group_of[user.index()].is_none() {
                    pending.push((user, gate));
                }
            }
        }
        waiters
    }

    /// The groups that read a value from memory, since it is a part of a pack or
    /// waits for itself.
    pub(super) fn memory_readers(&self, id: NodeId) -> GroupReaders {
        let mut readers = GroupReaders::new();
        let Some(users) = &self.users else { return readers };
        let mut pending: SmallVec<[NodeId; 8]> = smallvec::smallvec![id];
        while let Some(node) = pending.pop() {
            let packs =
                users[node.index()].iter().filter(|user| matches!(self.graph.node(**user).op, Op::Pack(_)));
            for &pack in packs {
                add_readers(&mut readers, &self.readers[pack.index()]);
                pending.push(pack);
            }
            let waits = |user: &&NodeId| self.graph.node(**user).waits_for_itself();
            for gate in users[node.index()].iter().filter(waits) {
                add_readers(&mut readers, &self.readers[gate.index()]);
            }
        }
        readers
    }

    /// Whether group `a` needs a result of group `b`, directly or not.
    pub(super) fn depends(&self, a: GroupId, b: GroupId) -> Dependence {
        self.reaches(a, b, false)
    }

    /// Whether group `a` needs a result of group `b` through some other step.
    pub(super) fn depends_indirectly(&self, a: GroupId, b: GroupId) -> Dependence {
        self.reaches(a, b, true)
    }

    fn reaches(&self, a: GroupId, b: GroupId, apart: bool) -> Dependence {
        let bound = self.spans.lower_bound(self.ends[b as usize].0);
        let mut search = self.scratch.borrow_mut();
        search.begin(self.groups.len(), self.graph.nodes.len());
        search.enters(a);
        // Where every path counts, all have left.
        self.descend(&mut search, a, !apart);
        let mut visits = 0;
        while let Some((id, left)) = search.pending.pop() {
            visits += 1;
            if visits > MAX_VISITS {
                return Dependence::Unknown;
            }
            match self.group_of[id.index()] {
                Some(group) if group == b && left => return Dependence::Yes,
                Some(group) if group != b && self.ends[group as usize].1 > bound && search.enters(group) => {
                    self.descend(&mut search, group, true);
                }
                None if id > bound && search.passes(id, left) => {
                    // A node not placed yet will be a step of its own unless it moves.
                    let moves =
                        matches!(self.classes[id.index()], FusionClass::Movement | FusionClass::Source)
                            || self.duplicated[id.index()];
                    let below = self.graph.node(id).operands.iter();
                    search.pending.extend(below.map(|&operand| (operand, left || !moves)));
                }
                Some(_) | None => {}
            }
        }
        Dependence::No
    }

    /// What the members of a group read of others is to be looked at.
    fn descend(&self, search: &mut QueryScratch, group: GroupId, left: bool) {
        for &member in &self.group(group).members {
            let others = self.graph.node(member).operands.iter();
            let others = others.filter(|operand| self.group_of[operand.index()] != Some(group));
            search.pending.extend(others.map(|&operand| (operand, left)));
        }
    }
}
