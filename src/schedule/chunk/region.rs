//! Which part of a graph to compute in chunks: what makes and uses a value
//! that is too large, as far as its parts do not depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::ir::{Graph, NodeId, Op};
use crate::schedule::ScheduledGraph;
use crate::schedule::chunk::axis::{OperandAxes, operand_axes, summed_axes};
use crate::schedule::fusion_class::{FusionClass, fusion_class};

/// Nodes whose values are computed part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkRegion {
    /// By node, the axis along which its parts follow one another.
    pub axes: BTreeMap<NodeId, usize>,
    /// Nodes that sum over what the region computes: each chunk adds its part.
    /// With what that needs of their operands.
    pub sums: BTreeMap<NodeId, OperandAxes>,
    /// The values of the region that must be there as a whole in the end.
    pub kept: BTreeSet<NodeId>,
    /// Into how many equal parts all values of the region can be cut.
    pub units: usize,
}

/// Which node reads a value, and as which operand.
pub(super) type Users = [SmallVec<[NodeId; 4]>];

/// The region around a value, along one of its axes: what is connected to it
/// through values of at least `least` bytes, what is made from those, and
/// whatever is on paths between them.
/// `None` if one part needs another.
pub(super) fn grow_from(
    graph: &Graph,
    users: &Users,
    seed: NodeId,
    axis: usize,
    least: usize,
) -> Option<ChunkRegion> {
    let mut region = ChunkRegion::default();
    region.grow(graph, users, seed, axis, least)?;
    region.close_over_paths(graph)?;
    region.find_sums(graph, users, least);
    region.check(graph)?;
    let sums = &region.sums;
    let outside = |user: &NodeId| {
        !region.axes.contains_key(user)
            && !sums.contains_key(user)
            && !matches!(graph.node(*user).op, Op::After)
    };
    let leaves = |id: &&NodeId| {
        graph.outputs.contains(id)
            || users[id.index()].iter().any(outside)
            || users[id.index()].iter().any(|user| gates_outside(graph, &region, *user, **id))
    };
    region.kept = region.axes.keys().filter(leaves).copied().collect();
    region.units = region.common(graph);
    (region.units > 1).then_some(region)
}

/// Whether an [`Op::After`] outside reads a value, rather than depend on it by control alone.
fn gates_outside(graph: &Graph, region: &ChunkRegion, user: NodeId, id: NodeId) -> bool {
    let node = graph.node(user);
    matches!(node.op, Op::After) && !region.axes.contains_key(&user) && node.operands[0] == id
}

/// The operands of a node whose values matter: a gate only waits for the other.
fn operands(graph: &Graph, id: NodeId) -> impl Iterator<Item = (usize, NodeId)> {
    crate::schedule::fusion_class::read_operands(graph.node(id)).iter().copied().enumerate()
}

impl ChunkRegion {
    fn grow(&mut self, graph: &Graph, users: &Users, seed: NodeId, axis: usize, least: usize) -> Option<()> {
        let mut pending = vec![(seed, axis)];
        while let Some((id, axis)) = pending.pop() {
            match self.axes.get(&id) {
                Some(&known) if known == axis => continue,
                Some(_) => return None,
                None => {}
            }
            let needs = operand_axes(graph, id, axis)?;
            self.axes.insert(id, axis);
            let wide = |id: NodeId| graph.ty(id).bytes() >= least;
            // What is small ends the region.
            if !wide(id) {
                continue;
            }
            for (place, operand) in operands(graph, id) {
                if let Some(axis) = needs[place]
                    && wide(operand)
                    && self::operand_axes(graph, operand, axis).is_some()
                {
                    pending.push((operand, axis));
                }
            }
            for &user in &users[id.index()] {
                let along = |(place, _): (usize, NodeId)| follows(graph, user, place, axis);
                let mut reads = operands(graph, user).filter(|&(_, operand)| operand == id);
                if let Some(axis) = reads.find_map(along) {
                    pending.push((user, axis));
                }
            }
        }
        Some(())
    }

    /// Whether some of it is a chunk already.
    pub fn is_cut(&self, schedule: &ScheduledGraph) -> bool {
        self.axes.keys().chain(self.sums.keys()).any(|id| schedule.chunks.contains_key(id))
    }

    /// How many nodes are computed in each chunk.
    pub fn nodes(&self) -> usize {
        self.axes.len() + self.sums.len()
    }

    /// Takes in every node on a path from the region back into it.
    fn close_over_paths(&mut self, graph: &Graph) -> Option<()> {
        let below = self.below(graph);
        let mut above = vec![false; graph.nodes.len()];
        for id in graph.ids().rev() {
            if above[id.index()] || self.axes.contains_key(&id) {
                operands(graph, id).for_each(|(_, operand)| above[operand.index()] = true);
            }
        }
        let between = |id: &NodeId| below[id.index()] && above[id.index()];
        for id in graph.ids().filter(between) {
            if self.axes.contains_key(&id) {
                continue;
            }
            let from =
                |(place, operand): (usize, NodeId)| follows(graph, id, place, *self.axes.get(&operand)?);
            let axis = operands(graph, id).find_map(from)?;
            self.axes.insert(id, axis);
        }
        Some(())
    }

    /// By node, whether it is computed from what the region computes.
    fn below(&self, graph: &Graph) -> Vec<bool> {
        let mut below = vec![false; graph.nodes.len()];
        for id in graph.ids() {
            let from = |(_, x): (usize, NodeId)| below[x.index()] || self.axes.contains_key(&x);
            below[id.index()] = operands(graph, id).any(from);
        }
        below
    }

    /// Adds the nodes that sum over wide values of the region, and need no
    /// other value that is made from it as a whole.
    fn find_sums(&mut self, graph: &Graph, users: &Users, least: usize) {
        let wide = self.axes.iter().filter(|(id, _)| graph.ty(**id).bytes() >= least);
        let below = self.below(graph);
        let early =
            |id: NodeId| operands(graph, id).all(|(_, x)| self.axes.contains_key(&x) || !below[x.index()]);
        let mut sums = BTreeMap::new();
        for (&id, &axis) in wide {
            for &user in users[id.index()].iter().filter(|user| !self.axes.contains_key(user)) {
                let place = operands(graph, user).find(|&(_, operand)| operand == id);
                let needs = place.and_then(|(place, _)| summed_axes(graph, user, place, axis));
                if let Some(needs) = needs
                    && early(user)
                    && self.provides(graph, user, &needs)
                {
                    sums.insert(user, needs);
                }
            }
        }
        self.sums = sums;
    }

    /// Whether the region's values have parts as a node needs them.
    fn provides(&self, graph: &Graph, id: NodeId, needs: &OperandAxes) -> bool {
        let fits = |(place, operand): (usize, NodeId)| {
            self.axes.get(&operand).is_none_or(|&axis| needs[place] == Some(axis))
        };
        operands(graph, id).all(fits)
    }

    /// Every value within the region is needed part by part.
    fn check(&self, graph: &Graph) -> Option<()> {
        let fits = |(&id, &axis): (&NodeId, &usize)| {
            operand_axes(graph, id, axis).is_some_and(|needs| self.provides(graph, id, &needs))
        };
        self.axes.iter().all(fits).then_some(())
    }

    /// The greatest number that divides the extents of all axes.
    fn common(&self, graph: &Graph) -> usize {
        let mut common = 0;
        for (&id, &axis) in &self.axes {
            common = gcd(common, graph.ty(id).shape[axis]);
            let needs = operand_axes(graph, id, axis).unwrap_or_default();
            for (place, operand) in operands(graph, id) {
                if let Some(axis) = needs[place] {
                    common = gcd(common, graph.ty(operand).shape[axis]);
                }
            }
        }
        common
    }
}

/// The axis along which parts of a node follow from parts of an operand.
fn follows(graph: &Graph, id: NodeId, place: usize, axis: usize) -> Option<usize> {
    let node = graph.node(id);
    let transfer = matches!(fusion_class(node, true), FusionClass::Input | FusionClass::Source);
    let mut axes = 0..node.ty.shape.rank();
    if transfer {
        return None;
    }
    axes.find(|&own| {
        node.ty.shape[own] > 1 && operand_axes(graph, id, own).is_some_and(|n| n[place] == Some(axis))
    })
}

/// The greatest common gcd.
pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
