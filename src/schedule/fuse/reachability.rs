//! Reachability queries: which group depends on which, before the groups have an order.

use smallvec::SmallVec;

use crate::ir::{NodeId, Op};
use crate::schedule::fuse::{FusionState, GroupId, GroupReaders, add_readers};
use crate::schedule::fusion_class::FusionClass;

/// Nodes that a query visits before it gives up. Groups so distant in the
/// order would keep what they share live for as long.
const MAX_VISITS: usize = 1 << 11;

/// Whether one group depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    No,
    Yes,
    /// The query gave up. Counts as a dependence where a wrong answer would be unsound.
    Unknown,
}

/// Scratch memory, reused by every query.
#[derive(Debug, Default)]
pub(super) struct QueryScratch {
    /// The number of the current query.
    number: u32,
    /// By group, the last query that entered it.
    entered: Vec<u32>,
    /// By node, the last query that visited it, and whether its path had
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
    /// Whether this query enters the group for the first time.
    fn enters(&mut self, group: GroupId) -> bool {
        std::mem::replace(&mut self.entered[group as usize], self.number) != self.number
    }
    /// Whether this query has not visited the node, or only without leaving.
    fn visits(&mut self, id: NodeId, left: bool) -> bool {
        let (query, before) = self.passed[id.index()];
        let fresh = query != self.number || (left && !before);
        if fresh {
            self.passed[id.index()] = (self.number, left);
        }
        fresh
    }
}

impl FusionState<'_> {
    /// The groups with a control dependency on a value: they run after it without
    /// reading it.
    pub(super) fn control_dependents(&self, id: NodeId) -> GroupReaders {
        let mut dependents = GroupReaders::new();
        let Some(users) = &self.users else { return dependents };
        let mut pending: SmallVec<[(NodeId, bool); 8]> = smallvec::smallvec![(id, false)];
        while let Some((node, waits)) = pending.pop() {
            if waits {
                add_readers(&mut dependents, &self.readers[node.index()]);
                dependents.extend(self.group_of[node.index()]);
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
        dependents
    }

    /// The groups that read a value from memory: as a part of a pack, or through an
    /// [`Op::After`] on itself.
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
            let gates = |user: &&NodeId| self.graph.node(**user).waits_for_itself();
            for gate in users[node.index()].iter().filter(gates) {
                add_readers(&mut readers, &self.readers[gate.index()]);
            }
        }
        readers
    }

    /// Whether group `a` depends on group `b`, directly or not.
    pub(super) fn depends(&self, a: GroupId, b: GroupId) -> Dependence {
        self.reaches(a, b, false)
    }

    /// Whether group `a` depends on group `b` through another group.
    pub(super) fn depends_indirectly(&self, a: GroupId, b: GroupId) -> Dependence {
        self.reaches(a, b, true)
    }

    fn reaches(&self, a: GroupId, b: GroupId, indirectly: bool) -> Dependence {
        let bound = self.spans.lower_bound(self.ends[b as usize].0);
        let mut scratch = self.scratch.borrow_mut();
        scratch.begin(self.groups.len(), self.graph.nodes.len());
        scratch.enters(a);
        // Where every path counts, all have left.
        self.descend(&mut scratch, a, !indirectly);
        let mut visits = 0;
        while let Some((id, left)) = scratch.pending.pop() {
            visits += 1;
            if visits > MAX_VISITS {
                return Dependence::Unknown;
            }
            match self.group_of[id.index()] {
                Some(group) if group == b && left => return Dependence::Yes,
                Some(group) if group != b && self.ends[group as usize].1 > bound && scratch.enters(group) => {
                    self.descend(&mut scratch, group, true);
                }
                None if id > bound && scratch.visits(id, left) => {
                    // A node without a group will be a step of its own unless it only moves data.
                    let moves =
                        matches!(self.classes[id.index()], FusionClass::Movement | FusionClass::Source)
                            || self.duplicated[id.index()];
                    let below = self.graph.node(id).operands.iter();
                    scratch.pending.extend(below.map(|&operand| (operand, left || !moves)));
                }
                Some(_) | None => {}
            }
        }
        Dependence::No
    }

    /// Pushes what the members of a group read of others.
    fn descend(&self, scratch: &mut QueryScratch, group: GroupId, left: bool) {
        for &member in &self.group(group).members {
            let others = self.graph.node(member).operands.iter();
            let others = others.filter(|operand| self.group_of[operand.index()] != Some(group));
            scratch.pending.extend(others.map(|&operand| (operand, left)));
        }
    }
}
