//! Which group needs which, before the groups have an order.

use std::collections::HashSet;

use crate::ir::NodeId;
use crate::schedule::class::Class;
use crate::schedule::fuse::{GroupId, State};

impl State<'_> {
    /// Whether group `a` needs a result of group `b`, directly or not.
    pub(super) fn depends(&self, a: GroupId, b: GroupId) -> bool {
        self.reaches(a, b, false)
    }

    /// Whether group `a` needs a result of group `b` through some other step.
    pub(super) fn depends_apart(&self, a: GroupId, b: GroupId) -> bool {
        self.reaches(a, b, true)
    }

    pub(super) fn reaches(&self, a: GroupId, b: GroupId, apart: bool) -> bool {
        let floor = self.spans.floor(self.ends[b as usize].0);
        let mut seen: HashSet<GroupId> = HashSet::from([a]);
        let mut seen_nodes: HashSet<(NodeId, bool)> = HashSet::new();
        // Each entry: a node, and whether the path has left `a` through another group.
        let mut pending: Vec<(NodeId, bool)> = Vec::new();
        let below = |id: NodeId| self.graph.node(id).operands.iter().copied();
        pending.extend(self.group(a).members.iter().flat_map(|&id| below(id)).map(|id| (id, false)));
        while let Some((id, left)) = pending.pop() {
            let group = self.group_of[id.index()];
            if group == Some(b) {
                if left || !apart {
                    return true;
                }
                continue;
            }
            if group == Some(a) {
                continue;
            }
            match group {
                Some(group) => {
                    let members = &self.group(group).members;
                    if seen.insert(group) && self.ends[group as usize].1 > floor {
                        pending.extend(members.iter().flat_map(|&id| below(id)).map(|id| (id, true)));
                    }
                }
                None if id > floor && seen_nodes.insert((id, left)) => {
                    // A node not placed yet will be a step of its own unless it moves.
                    let moves = matches!(self.classes[id.index()], Class::Movement | Class::Source)
                        || self.duplicated[id.index()];
                    pending.extend(below(id).map(|operand| (operand, left || !moves)));
                }
                None => {}
            }
        }
        false
    }
}
