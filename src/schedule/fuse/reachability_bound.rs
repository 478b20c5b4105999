//! Where a search for paths between groups may stop.
//!
//! Operands have lower numbers than their users, so a path of nodes goes
//! down. A path of groups may also go up: it enters a group at a low member
//! and leaves it from a high one.

use crate::ir::NodeId;

/// The stretches of numbers that groups span. Groups only grow.
#[derive(Debug)]
pub struct GroupSpans {
    /// A Fenwick tree (Fenwick 1994) over highest members, from the last node
    /// down: the lowest member of any group whose highest is in the stretch.
    lowest: Vec<u32>,
}

impl GroupSpans {
    /// No groups, in a graph of so many nodes.
    pub fn new(nodes: usize) -> GroupSpans {
        GroupSpans { lowest: vec![u32::MAX; nodes + 1] }
    }

    /// A group has members at `low` and `high`.
    pub fn add(&mut self, low: NodeId, high: NodeId) {
        let mut place = self.lowest.len() - 1 - high.index();
        while place < self.lowest.len() {
            self.lowest[place] = self.lowest[place].min(low.0);
            place += place & place.wrapping_neg();
        }
    }

    /// The lowest member of the groups that have one above `id`.
    fn lowest_reaching_above(&self, id: NodeId) -> u32 {
        let mut place = self.lowest.len().saturating_sub(2 + id.index());
        let mut lowest = u32::MAX;
        while place > 0 {
            lowest = lowest.min(self.lowest[place]);
            place &= place - 1;
        }
        lowest
    }

    /// A number below which no path starts that leads to `low` or above.
    pub fn lower_bound(&self, low: NodeId) -> NodeId {
        let mut floor = low;
        loop {
            let lower = self.lowest_reaching_above(floor);
            if lower >= floor.0 {
                return floor;
            }
            floor = NodeId(lower);
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
    fn groups_that_lie_apart_lead_nowhere() {
        let spans = spans(&[(0, 3), (4, 4), (5, 9)]);
        assert_eq!(spans.lower_bound(NodeId(5)), NodeId(5));
        assert_eq!(spans.lower_bound(NodeId(4)), NodeId(4));
    }

    #[test]
    fn groups_that_overlap_lead_up_step_by_step() {
        let spans = spans(&[(6, 9), (4, 7), (1, 5), (0, 0)]);
        assert_eq!(spans.lower_bound(NodeId(6)), NodeId(1));
        assert_eq!(spans.lower_bound(NodeId(8)), NodeId(1));
    }

    #[test]
    fn a_group_below_that_ends_at_the_floor_is_the_same_group() {
        assert_eq!(spans(&[(2, 5), (5, 9)]).lower_bound(NodeId(5)), NodeId(5));
    }
}
