//! Sinks producers: elementwise work moves from a product's prologue into the epilogue
//! of the kernel before it.
//!
//! A product recomputes its prologue for every block of its result. Fusion visits
//! consumers first, so it may leave half of an activation in the prologue and store
//! the inputs of that half, which can be twice as large. Where the kernel that computes
//! those inputs can compute the operand as well, and the two kernels then move no more
//! bytes, the prologue moves there.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::ir::{NodeId, Op};
use crate::kernel::Blocker;
use crate::schedule::fuse::reachability::Dependence;
use crate::schedule::fuse::{FusionState, GroupId, MAX_MEMBERS, add_readers};
use crate::schedule::fusion_class::{FusionClass, is_product, read_operands};

/// The nodes of a product's kernel that compute one of its operands.
#[derive(Debug, Default)]
struct Prologue {
    /// The members that compute the operand, it first, descending.
    members: Vec<NodeId>,
    /// The values they are computed from that other kernels store.
    sources: Vec<NodeId>,
    /// How often each value below is read by what is before the operand.
    reads: Vec<(NodeId, u32)>,
}

impl Prologue {
    fn reads(&self, id: NodeId) -> u32 {
        self.reads.binary_search_by_key(&id, |read| read.0).map_or(0, |index| self.reads[index].1)
    }
}

impl FusionState<'_> {
    /// Sinks the prologues of products into the kernels that store their sources.
    pub(super) fn sink_producers(&mut self) {
        for number in 0..self.groups.len() as GroupId {
            let product = self.groups[number as usize].as_ref().filter(|group| group.contraction);
            let Some(group) = product else { continue };
            let products = group.members.iter().filter(|&&id| is_product(&self.graph.node(id).op));
            let operands: SmallVec<[NodeId; 4]> =
                products.flat_map(|&id| read_operands(self.graph.node(id)).iter().copied()).collect();
            for operand in operands {
                let operand = self.movement_source(operand);
                if let Some(prologue) = self.prologue(number, operand) {
                    self.sink_into_a_source(number, &prologue);
                }
            }
        }
    }

    /// The value under movement that its readers do themselves.
    fn movement_source(&self, mut id: NodeId) -> NodeId {
        while self.classes[id.index()] == FusionClass::Movement && !self.stored[id.index()] {
            id = self.graph.node(id).operands[0];
        }
        id
    }

    /// The prologue of one operand; `None` where it is empty, or others need it as well.
    fn prologue(&self, number: GroupId, operand: NodeId) -> Option<Prologue> {
        let own = |id: NodeId| self.group_of[id.index()] == Some(number);
        let mut found = Prologue::default();
        let mut pending = BTreeMap::from([(operand, 0u32)]);
        // Users have higher numbers, so a node comes after all that read it.
        while let Some((id, reads)) = pending.pop_last() {
            let index = id.index();
            found.reads.push((id, reads));
            if own(id) {
                let alone = id == operand || reads == self.uses[index];
                if self.classes[index] != FusionClass::Pointwise || self.stored[index] || !alone {
                    return None;
                }
                found.members.push(id);
            } else if self.group_of[index].is_some() {
                found.sources.push(id);
                continue;
            }
            // What others need moved as well, they read.
            let alone = own(id) || reads == self.uses[index];
            for &below in read_operands(self.graph.node(id)) {
                *pending.entry(below).or_default() += u32::from(alone);
            }
        }
        found.reads.reverse();
        (found.members.first() == Some(&operand)).then_some(found)
    }

    /// Sinks a prologue into the first of its sources' kernels that can hold it.
    fn sink_into_a_source(&mut self, product: GroupId, prologue: &Prologue) {
        let mut sources = prologue.sources.clone();
        sources.sort_by_key(|&id| std::cmp::Reverse(self.bytes(id)));
        let mut tried: SmallVec<[GroupId; 4]> = SmallVec::new();
        for source in sources {
            let Some(number) = self.group_of[source.index()] else { continue };
            if tried.contains(&number) {
                continue;
            }
            tried.push(number);
            if self.can_host(number, prologue) && self.sink_into(product, number, prologue) {
                return;
            }
        }
    }

    /// Whether dependences allow a kernel to compute a prologue; lowering and cost are
    /// checked after that.
    fn can_host(&self, number: GroupId, prologue: &Prologue) -> bool {
        let group = self.group(number);
        let leader = group.roots[0];
        let computes = !matches!(self.classes[leader.index()], FusionClass::Opaque | FusionClass::Scatter);
        let device = self.graph.ty(leader).device == self.graph.ty(prologue.members[0]).device;
        let independent = |other: GroupId| other == number || self.depends(number, other) == Dependence::No;
        let from_memory = |other: GroupId| other == number || self.depends(number, other) != Dependence::No;
        computes
            && device
            && group.members.len() + prologue.members.len() <= MAX_MEMBERS
            && prologue
                .sources
                .iter()
                .filter_map(|id| self.group_of[id.index()])
                .all(|other| other == number || self.depends(other, number) == Dependence::No)
            && prologue.members.iter().all(|&id| self.control_dependents(id).into_iter().all(independent))
            && !prologue.members.iter().any(|&id| self.memory_readers(id).into_iter().any(from_memory))
    }

    /// Moves a prologue into a kernel, if that lowers and no more bytes move; whether
    /// it did.
    fn sink_into(&mut self, product: GroupId, number: GroupId, prologue: &Prologue) -> bool {
        let operand = prologue.members[0];
        let mut roots = self.group(number).roots.clone();
        let dropped = |&&id: &&NodeId| self.only_for(id, number, prologue);
        let unread: SmallVec<[NodeId; 2]> = roots.iter().filter(dropped).copied().collect();
        let stored: u64 = unread.iter().map(|&id| self.bytes(id)).sum();
        if 2 * self.bytes(operand) > stored + self.read_only_for(product, number, prologue) {
            return false;
        }
        roots.retain(|id| !unread.contains(id));
        roots.insert(roots.partition_point(|&root| root < operand), operand);
        self.move_prologue(prologue, number, &unread, true);
        let taken = self.lower(&[number], None, &roots).is_ok();
        if taken {
            self.commit(product, number, prologue, roots);
        } else {
            self.move_prologue(prologue, product, &unread, false);
        }
        taken
    }

    fn bytes(&self, id: NodeId) -> u64 {
        self.graph.ty(id).bytes() as u64
    }

    /// Bytes of a kernel's results that a product's kernel reads for this prologue alone.
    fn read_only_for(&self, product: GroupId, number: GroupId, prologue: &Prologue) -> u64 {
        let others = self.group(product).members.iter().filter(|id| !prologue.members.contains(id));
        let read: SmallVec<[NodeId; 16]> =
            others.flat_map(|&id| self.graph.node(id).operands.iter().copied()).collect();
        let own = |id: &&NodeId| self.group_of[id.index()] == Some(number) && !read.contains(id);
        prologue.sources.iter().filter(own).map(|&id| self.bytes(id)).sum()
    }

    /// Whether a value that a kernel stores is read by nothing but that kernel and a
    /// prologue.
    fn only_for(&self, id: NodeId, number: GroupId, prologue: &Prologue) -> bool {
        let members = self.group(number).members.iter().flat_map(|&member| &self.graph.node(member).operands);
        let within = members.filter(|&&operand| operand == id).count() as u32;
        let requested = self.graph.outputs.contains(&id) || matches!(self.graph.node(id).op, Op::Copy(_));
        !requested && prologue.reads(id) + within == self.uses[id.index()]
    }

    /// Makes the members of a prologue a kernel's. Stored is then its operand, or else the
    /// values that are read for the prologue alone.
    fn move_prologue(
        &mut self,
        prologue: &Prologue,
        number: GroupId,
        unread: &[NodeId],
        operand_stored: bool,
    ) {
        prologue.members.iter().for_each(|id| self.group_of[id.index()] = Some(number));
        unread.iter().for_each(|id| self.stored[id.index()] = !operand_stored);
        self.stored[prologue.members[0].index()] = operand_stored;
    }

    /// Records that a kernel computes a product's prologue.
    fn commit(&mut self, product: GroupId, number: GroupId, prologue: &Prologue, roots: Vec<NodeId>) {
        let operand = prologue.members[0];
        self.refuse(operand, product, Blocker::ComputedBefore);
        self.group_mut(product).members.retain(|id| !prologue.members.contains(id));
        let group = self.group_mut(number);
        group.roots = roots;
        group.members.extend(&prologue.members);
        self.readers[operand.index()] = smallvec::smallvec![product];
        for &(id, _) in &prologue.reads[..prologue.reads.len() - 1] {
            add_readers(&mut self.readers[id.index()], &[number]);
        }
        let (low, high) = self.ends[number as usize];
        let lowest = prologue.members.iter().copied().min().unwrap_or(operand);
        self.extend(number, low.min(lowest), high.max(operand));
    }
}
