//! A lower bound on node numbers for reachability queries between groups.
//!
//! Operands have lower numbers than their users, so a path of nodes descends.
//! A path of groups may also ascend: it enters a group at a low member and
//! leaves it from a high one. Below the bound no such path can end in the group
//! that a query looks for, so the query need not descend further.

use crate::ir::NodeId;

/// The ranges of node numbers that groups span. Groups only grow.
#[derive(Debug)]
pub struct GroupSpans {
    /// A Fenwick tree (Fenwick 1994) over highest members, from the last node
    /// down: the lowest member of any group whose highest is in the range.
    lowest: Vec<u32>,
}

impl GroupSpans {
    /// No groups, in a graph of so many nodes.
    pub fn new(nodes: usize) -> GroupSpans {
        GroupSpans { lowest: vec![u32::MAX; nodes + 1] }
    }

    /// A group has members at `low` and `high`.
    pub fn add(&mut self, low: NodeId, high: NodeId) {
        let mut slot = self.lowest.len() - 1 - high.index();
        while slot < self.lowest.len() {
            self.lowest[slot] = self.lowest[slot].min(low.0);
            slot += slot & slot.wrapping_neg();
        }
    }

    /// The lowest member of the groups that have one above `id`.
    fn lowest_reaching_above(&self, id: NodeId) -> u32 {
        let mut slot = self.lowest.len().saturating_sub(2 + id.index());
        let mut lowest = u32::MAX;
        while slot > 0 {
            lowest = lowest.min(self.lowest[slot]);
            slot &= slot - 1;
        }
        lowest
    }

    /// A number below which no path starts that leads to `low` or above.
    pub fn lower_bound(&self, low: NodeId) -> NodeId {
        let mut bound = low;
        loop {
            let lower = self.lowest_reaching_above(bound);
            if lower >= bound.0 {
                return bound;
            }
            bound = NodeId(lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(of: &[(u32, u32)]) -> GroupSpans {
        let mut spans = GroupSpans::new(10);
        of.iter().for_each(|&(low, high)| spans.add(NodeId(low), NodeId(high)));
        spans
    }

    #[test]
    fn disjoint_groups_do_not_lower_the_bound() {
        let spans = spans(&[(0, 3), (4, 4), (5, 9)]);
        assert_eq!(spans.lower_bound(NodeId(5)), NodeId(5));
        assert_eq!(spans.lower_bound(NodeId(4)), NodeId(4));
    }

    #[test]
    fn overlapping_groups_lower_the_bound_step_by_step() {
        let spans = spans(&[(6, 9), (4, 7), (1, 5), (0, 0)]);
        assert_eq!(spans.lower_bound(NodeId(6)), NodeId(1));
        assert_eq!(spans.lower_bound(NodeId(8)), NodeId(1));
    }

    #[test]
    fn a_group_that_ends_at_the_bound_does_not_lower_it() {
        assert_eq!(spans(&[(2, 5), (5, 9)]).lower_bound(NodeId(5)), NodeId(5));
    }
}
