//! Fusion: which nodes share a kernel.
//!
//! Nodes are taken consumers first. A node joins the one kernel that reads
//! it where lowering the enlarged kernel succeeds and its cost is sound;
//! kernels that read the same value merge where they can. What is read by
//! several kernels is computed in each of them or stored, whichever moves
//! fewer bytes. At last, producers that were left in a product's kernel sink
//! into the kernel that stores their inputs, if that can hold them. Every refusal
//! is kept, for `why_not_fused`.

mod cost_model;
mod merge;
mod reachability;
mod reachability_bound;
mod sink_producers;
mod split_by_bindings;

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Device, Optimization};
use crate::ir::{Graph, Layout, NodeId, Op};
use crate::kernel::{Blocker, LoweredKernel, Request, Role, lower};
use crate::runtime::Capabilities;
use crate::schedule::fuse::reachability::{Dependence, QueryScratch};
use crate::schedule::fuse::reachability_bound::GroupSpans;
use crate::schedule::fusion_class::{FusionClass, fusion_class, is_product, read_operands};

/// Nodes one kernel may compute.
const MAX_MEMBERS: usize = 256;

/// Number of a group of nodes that run as one step.
pub type GroupId = u32;
type GroupReaders = SmallVec<[GroupId; 4]>;

/// Nodes that run as one step.
#[derive(Clone, Debug, Default)]
pub struct FusionGroup {
    /// The nodes computed, in the order they joined.
    pub members: Vec<NodeId>,
    /// The nodes stored, ascending.
    pub roots: Vec<NodeId>,
    /// The kernel and its values, once all is decided; `None` for a step that is
    /// not a kernel.
    pub call: Option<LoweredKernel>,
    structural: bool,
    contraction: bool,
}

impl FusionGroup {
    /// A group that was decided on.
    pub(super) fn decided(
        members: Vec<NodeId>,
        roots: Vec<NodeId>,
        call: Option<LoweredKernel>,
    ) -> FusionGroup {
        FusionGroup { members, roots, call, ..FusionGroup::default() }
    }
}

/// A fusion that was refused: of a value into the kernel that reads it, or of two
/// kernels that read the same value.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The value that was not fused.
    pub producer: NodeId,
    /// A value stored by the other kernel.
    pub consumer: NodeId,
    /// Why; equal reasons share one.
    pub blocker: Arc<Blocker>,
}

/// The result of fusion.
#[derive(Clone, Debug, Default)]
pub struct Fusion {
    /// The steps, in no particular order.
    pub groups: Vec<FusionGroup>,
    /// The refused fusions.
    pub refusals: Vec<Refusal>,
}

/// What fusion needs to know besides the graph.
pub struct FusionContext<'a> {
    /// The graph, simplified.
    pub graph: &'a Graph,
    /// The layouts of parameters, by number; dense where there is none.
    pub layouts: &'a [Layout],
    /// What each device can do.
    pub capabilities: &'a dyn Fn(Device) -> Capabilities,
}

/// Groups the nodes of a graph into steps.
pub fn fuse<'a>(context: &'a FusionContext<'a>) -> Fusion {
    let mut state = FusionState::new(context);
    for id in context.graph.ids().rev() {
        state.visit(id);
    }
    if Optimization::HorizontalFusion.is_on() {
        state.merge_siblings();
    }
    if Optimization::ProducerSinking.is_on() {
        state.sink_producers();
    }
    state.lower_groups()
}

struct FusionState<'a> {
    context: &'a FusionContext<'a>,
    graph: &'a Graph,
    classes: Vec<FusionClass>,
    /// Uses per node, counting each operand slot.
    uses: Vec<u32>,
    group_of: Vec<Option<GroupId>>,
    groups: Vec<Option<FusionGroup>>,
    /// The lowest and the highest member of each group.
    ends: Vec<(NodeId, NodeId)>,
    spans: GroupSpans,
    scratch: RefCell<QueryScratch>,
    readers: Vec<GroupReaders>,
    /// Whether the value must be in memory.
    stored: Vec<bool>,
    /// Whether readers compute the value themselves.
    duplicated: Vec<bool>,
    /// Whether a kernel reads the value for an operand of its product.
    before_product: Vec<bool>,
    refusals: Vec<Refusal>,
    /// The users of each node, if the graph has control dependencies ([`Op::After`]) or
    /// packs.
    users: Option<Vec<SmallVec<[NodeId; 4]>>>,
}

impl<'a> FusionState<'a> {
    fn new(context: &'a FusionContext<'a>) -> FusionState<'a> {
        let graph = context.graph;
        let count = graph.nodes.len();
        let same_device = |id: NodeId| {
            graph.node(id).operands.first().is_some_and(|&o| graph.ty(o).device == graph.ty(id).device)
        };
        let classes = graph.ids().map(|id| fusion_class(graph.node(id), same_device(id))).collect();
        let mut uses = vec![0; count];
        let mut stored = vec![false; count];
        graph.nodes.iter().flat_map(|node| &node.operands).for_each(|operand| uses[operand.index()] += 1);
        graph.outputs.iter().for_each(|output| stored[output.index()] = true);
        // A copy to its own device is a request to materialize.
        let copies = graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Copy(_)));
        copies.for_each(|id| stored[id.index()] = true);
        FusionState {
            context,
            graph,
            classes,
            uses,
            group_of: vec![None; count],
            groups: Vec::new(),
            ends: Vec::new(),
            spans: GroupSpans::new(count),
            scratch: RefCell::default(),
            readers: vec![GroupReaders::new(); count],
            stored,
            duplicated: vec![false; count],
            before_product: vec![false; count],
            refusals: Vec::new(),
            users: graph
                .nodes
                .iter()
                .any(|node| matches!(node.op, Op::After | Op::Pack(_)))
                .then(|| graph.users()),
        }
    }

    fn visit(&mut self, id: NodeId) {
        let stored = self.stored[id.index()];
        if self.readers[id.index()].is_empty() && !stored {
            return;
        }
        match self.classes[id.index()] {
            FusionClass::Input => {}
            FusionClass::Source if stored => self.new_group(id),
            FusionClass::Source => {}
            FusionClass::Movement if stored => self.store_movement(id),
            FusionClass::Movement => self.forward_readers(id),
            FusionClass::Pointwise | FusionClass::Structural => self.assign_group(id),
            FusionClass::Scatter => {
                self.new_group(id);
                // The base is updated in its own memory, not read by the kernel.
                let base = self.graph.node(id).operands[0];
                let own = self.group_of[id.index()];
                self.stored[base.index()] = true;
                self.readers[base.index()].retain(|reader| Some(*reader) != own);
            }
            FusionClass::Pack => {
                self.stored[id.index()] = true;
                for operand in &self.graph.node(id).operands {
                    self.stored[operand.index()] = true;
                }
            }
            FusionClass::Opaque => {
                self.new_group(id);
                for operand in &self.graph.node(id).operands {
                    self.stored[operand.index()] = true;
                }
            }
        }
    }

    /// A node that every reader computes: its readers read its operands.
    fn forward_readers(&mut self, id: NodeId) {
        let readers = self.readers[id.index()].clone();
        let before_product = self.before_product[id.index()];
        for &operand in read_operands(self.graph.node(id)) {
            add_readers(&mut self.readers[operand.index()], &readers);
            self.before_product[operand.index()] |= before_product;
        }
    }

    fn new_group(&mut self, id: NodeId) {
        let number = self.groups.len() as GroupId;
        self.groups.push(Some(FusionGroup { roots: vec![id], ..FusionGroup::default() }));
        self.ends.push((id, id));
        self.join(number, id);
    }

    fn join(&mut self, number: GroupId, id: NodeId) {
        self.group_of[id.index()] = Some(number);
        let structural = self.classes[id.index()] == FusionClass::Structural;
        let contraction = is_product(&self.graph.node(id).op);
        let before_product = contraction || self.group(number).contraction && self.before_product[id.index()];
        let group = self.group_mut(number);
        group.members.push(id);
        group.structural |= structural;
        group.contraction |= contraction;
        let (low, high) = self.ends[number as usize];
        self.extend(number, low.min(id), high.max(id));
        for &operand in &self.graph.node(id).operands {
            add_readers(&mut self.readers[operand.index()], &[number]);
            self.before_product[operand.index()] |= before_product;
        }
    }

    fn extend(&mut self, number: GroupId, low: NodeId, high: NodeId) {
        self.ends[number as usize] = (low, high);
        self.spans.add(low, high);
    }

    fn group(&self, number: GroupId) -> &FusionGroup {
        self.groups[number as usize].as_ref().unwrap_or_else(|| panic!("group {number} has merged away"))
    }

    fn group_mut(&mut self, number: GroupId) -> &mut FusionGroup {
        self.groups[number as usize].as_mut().unwrap_or_else(|| panic!("group {number} has merged away"))
    }

    fn refuse(&mut self, producer: NodeId, number: GroupId, blocker: Blocker) {
        /// Refusals before it that may share a reason.
        const NEAR: usize = 8;
        let consumer = self.group(number).roots[0];
        let near = self.refusals.iter().rev().take(NEAR);
        let equal = near.map(|refusal| &refusal.blocker).find(|other| ***other == blocker).cloned();
        let blocker = equal.unwrap_or_else(|| Arc::new(blocker));
        self.refusals.push(Refusal { producer, consumer, blocker });
    }

    /// Decides where a computed node runs.
    fn assign_group(&mut self, id: NodeId) {
        let stored = self.stored[id.index()];
        let mut readers = self.readers[id.index()].clone();
        if readers.len() > 1 {
            self.merge_readers(&mut readers);
        }
        if let [only] = readers[..] {
            match self.try_join(only, id, stored) {
                Ok(()) => return,
                Err(blocker) => self.refuse(id, only, blocker),
            }
        } else if !stored && self.cheap_to_repeat(id, &readers) && self.repeatable(id, &readers) {
            self.duplicated[id.index()] = true;
            return self.forward_readers(id);
        } else if readers.len() > 1 && !self.stores_into_reader(id, &readers) {
            let blocker = Blocker::Shared { readers: readers.len() };
            readers.iter().for_each(|&reader| self.refuse(id, reader, blocker.clone()));
        } else if readers.len() > 1 {
            return;
        }
        self.stored[id.index()] = true;
        self.new_group(id);
    }

    /// Whether the products among its readers can compute a node before they multiply.
    fn repeatable(&self, id: NodeId, readers: &GroupReaders) -> bool {
        let holds = |&reader: &GroupId| {
            let group = self.group(reader);
            !group.contraction || self.lower(&[reader], Some(id), &group.roots).is_ok()
        };
        !self.before_product[id.index()] || readers.iter().all(holds)
    }

    /// Stores a value that is only moved, from within a kernel that reads it
    /// if one can.
    fn store_movement(&mut self, id: NodeId) {
        let readers = self.readers[id.index()].clone();
        if !self.stores_into_reader(id, &readers) {
            self.new_group(id);
        }
    }

    /// Stores the value from within one of the kernels that read it.
    fn stores_into_reader(&mut self, id: NodeId, readers: &GroupReaders) -> bool {
        // A contraction below takes this value and elementwise readers as its
        // epilogue, but no kernel with rows.
        let epilogue = self.fed_by_contraction(id);
        for &reader in readers {
            if epilogue && self.group(reader).structural {
                continue;
            }
            if self.is_joint_row(id) && self.group(reader).contraction {
                continue;
            }
            let before = |other| other == reader || self.depends(reader, other) == Dependence::No;
            let before_others = readers.iter().all(|&other| before(other));
            if before_others && self.try_join(reader, id, true).is_ok() {
                self.stored[id.index()] = true;
                return true;
            }
        }
        false
    }

    /// Whether a value is a row that several products read, which are one launch if none of them computes it
    /// for the others.
    fn is_joint_row(&self, id: NodeId) -> bool {
        let ty = self.graph.ty(id);
        let is_row = ty.shape.last().is_some_and(|&extent| extent == ty.shape.numel());
        is_row && self.before_product[id.index()] && (self.context.capabilities)(ty.device).joint_rows
    }

    /// Computes a node in a kernel that reads it.
    fn try_join(&mut self, number: GroupId, id: NodeId, store: bool) -> Result<(), Blocker> {
        let group = self.group(number);
        let leader = group.roots[0];
        let leads = self.classes[leader.index()];
        if leads == FusionClass::Opaque || (leads == FusionClass::Scatter && store) {
            return Err(Blocker::Opaque(self.graph.node(leader).op.name()));
        }
        if self.graph.ty(leader).device != self.graph.ty(id).device {
            return Err(Blocker::Opaque("copy"));
        }
        if group.members.len() >= MAX_MEMBERS {
            return Err(Blocker::TooLarge(MAX_MEMBERS));
        }
        self.check_recomputation(group, id)?;
        let independent = |other: GroupId| other == number || self.depends(number, other) == Dependence::No;
        if !self.control_dependents(id).into_iter().all(independent) {
            return Err(Blocker::Cycle);
        }
        let from_memory =
            |reader: GroupId| reader == number || self.depends(number, reader) != Dependence::No;
        if self.memory_readers(id).into_iter().any(from_memory) {
            return Err(Blocker::Cycle);
        }
        if Optimization::Fusion.is_on() && self.joins_freely(number, id, store) {
            self.join(number, id);
            return Ok(());
        }
        let mut roots = group.roots.clone();
        if store {
            let index = roots.partition_point(|&root| root < id);
            roots.insert(index, id);
        }
        let joined = self.lower(&[number], Some(id), &roots)?;
        self.check_guarded_rows(id, &joined.kernel)?;
        self.join(number, id);
        self.group_mut(number).roots = roots;
        Ok(())
    }

    /// Lowers the union of some groups and perhaps one more node, and judges
    /// the kernel.
    fn lower(
        &self,
        numbers: &[GroupId],
        extra: Option<NodeId>,
        roots: &[NodeId],
    ) -> Result<LoweredKernel, Blocker> {
        if numbers.len() + usize::from(extra.is_some()) > 1 && !Optimization::Fusion.is_on() {
            return Err(Blocker::SwitchedOff);
        }
        let inside = |id: NodeId| {
            let index = id.index();
            let here = Some(id) == extra || self.group_of[index].is_some_and(|g| numbers.contains(&g));
            let moves = self.classes[index] == FusionClass::Movement && !self.stored[index];
            here || moves || self.duplicated[index]
        };
        let role = |id: NodeId| if inside(id) { Role::Inside } else { Role::Buffer };
        let request = Request { graph: self.graph, roots, role: &role, layouts: self.context.layouts };
        let call = lower(&request)?;
        self.check_limits(&call.kernel, roots)?;
        Ok(call)
    }
}

fn add_readers(readers: &mut GroupReaders, more: &[GroupId]) {
    for &reader in more {
        if !readers.contains(&reader) {
            readers.push(reader);
        }
    }
}
