//! Fusion: which nodes share a kernel.
//!
//! Nodes are taken consumers first. A node joins the one kernel that reads
//! it where lowering the enlarged kernel succeeds and its cost is sound;
//! kernels that read the same value merge where they can. What is read by
//! several kernels is computed in each of them or stored, whichever moves
//! fewer bytes. Every refusal is kept, for `why_not_fused`.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::base::Device;
use crate::ir::{Graph, Layout, NodeId, Op};
use crate::kernel::{Blocker, Kernel, Request, Role, lower};
use crate::runtime::Capabilities;
use crate::schedule::class::{Class, class};
use crate::schedule::floor::Spans;

/// Nodes one kernel may compute.
const MAX_MEMBERS: usize = 256;
/// Kernels reading one value that are considered for merging with each other.
const MAX_SIBLINGS: usize = 8;
/// Scalar operations worth one byte of memory traffic.
const FLOPS_PER_BYTE: u64 = 8;
/// Below this many points, occupancy does not matter.
const SMALL: usize = 1 << 16;

/// Number of a group of nodes that run as one step.
pub type GroupId = u32;
type Readers = SmallVec<[GroupId; 4]>;

/// Nodes that run as one step.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The nodes computed, in the order they joined.
    pub members: Vec<NodeId>,
    /// The nodes stored, ascending.
    pub roots: Vec<NodeId>,
    /// The kernel; `None` for a step that is not a kernel.
    pub kernel: Option<Kernel>,
    structural: bool,
    contraction: bool,
}

/// A refusal to compute two values in one kernel: one in the kernel that
/// reads it, or values of two kernels that read the same.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The value that stayed apart.
    pub producer: NodeId,
    /// A value stored by the other kernel.
    pub consumer: NodeId,
    /// Why.
    pub blocker: Blocker,
}

/// The result of fusion.
#[derive(Clone, Debug, Default)]
pub struct Fusion {
    /// The steps, in no particular order.
    pub groups: Vec<Group>,
    /// Why things stayed apart.
    pub refusals: Vec<Refusal>,
}

/// What fusion needs to know besides the graph.
pub struct Context<'a> {
    /// The graph, simplified.
    pub graph: &'a Graph,
    /// How parameters lie in memory, by number; dense where there is none.
    pub layouts: &'a [Layout],
    /// What each device can do.
    pub capabilities: &'a dyn Fn(Device) -> Capabilities,
}

/// Groups the nodes of a graph into steps.
pub fn fuse<'a>(context: &'a Context<'a>) -> Fusion {
    let mut state = State::new(context);
    for id in context.graph.ids().rev() {
        state.visit(id);
    }
    state.merge_siblings();
    state.finish()
}

struct State<'a> {
    context: &'a Context<'a>,
    graph: &'a Graph,
    classes: Vec<Class>,
    /// Uses per node, counting each operand slot.
    uses: Vec<u32>,
    group_of: Vec<Option<GroupId>>,
    groups: Vec<Option<Group>>,
    /// The lowest and the highest member of each group.
    ends: Vec<(NodeId, NodeId)>,
    spans: Spans,
    readers: Vec<Readers>,
    /// Whether the value must be in memory.
    stored: Vec<bool>,
    /// Whether readers compute the value themselves.
    duplicated: Vec<bool>,
    refusals: Vec<Refusal>,
}

impl<'a> State<'a> {
    fn new(context: &'a Context<'a>) -> State<'a> {
        let graph = context.graph;
        let count = graph.nodes.len();
        let same_device = |id: NodeId| {
            graph.node(id).operands.first().is_some_and(|&o| graph.ty(o).device == graph.ty(id).device)
        };
        let classes = graph.ids().map(|id| class(graph.node(id), same_device(id))).collect();
        let mut uses = vec![0; count];
        let mut stored = vec![false; count];
        graph.nodes.iter().flat_map(|node| &node.operands).for_each(|operand| uses[operand.index()] += 1);
        graph.outputs.iter().for_each(|output| stored[output.index()] = true);
        // A copy to its own device is a request to materialize.
        let copies = graph.ids().filter(|&id| matches!(graph.node(id).op, Op::Copy(_)));
        copies.for_each(|id| stored[id.index()] = true);
        State {
            context,
            graph,
            classes,
            uses,
            group_of: vec![None; count],
            groups: Vec::new(),
            ends: Vec::new(),
            spans: Spans::new(count),
            readers: vec![Readers::new(); count],
            stored,
            duplicated: vec![false; count],
            refusals: Vec::new(),
        }
    }

    fn visit(&mut self, id: NodeId) {
        let stored = self.stored[id.index()];
        if self.readers[id.index()].is_empty() && !stored {
            return;
        }
        match self.classes[id.index()] {
            Class::Input => {}
            Class::Source if stored => self.new_group(id),
            Class::Source => {}
            Class::Movement if stored => self.place_moved(id),
            Class::Movement => self.pass_on(id),
            Class::Pointwise | Class::Structural => self.place(id),
            Class::Scatter => {
                self.new_group(id);
                // The base is updated in its own memory, not read by the kernel.
                let base = self.graph.node(id).operands[0];
                let own = self.group_of[id.index()];
                self.stored[base.index()] = true;
                self.readers[base.index()].retain(|reader| Some(*reader) != own);
            }
            Class::Opaque => {
                self.new_group(id);
                for operand in &self.graph.node(id).operands {
                    self.stored[operand.index()] = true;
                }
            }
        }
    }

    /// A node that every reader computes hands its readers to its operands.
    fn pass_on(&mut self, id: NodeId) {
        let readers = self.readers[id.index()].clone();
        for &operand in &self.graph.node(id).operands {
            add_readers(&mut self.readers[operand.index()], &readers);
        }
    }

    fn new_group(&mut self, id: NodeId) {
        let number = self.groups.len() as GroupId;
        self.groups.push(Some(Group { roots: vec![id], ..Group::default() }));
        self.ends.push((id, id));
        self.join(number, id);
    }

    fn join(&mut self, number: GroupId, id: NodeId) {
        self.group_of[id.index()] = Some(number);
        let structural = self.classes[id.index()] == Class::Structural;
        let contraction = matches!(self.graph.node(id).op, Op::Contract(_));
        let group = self.group_mut(number);
        group.members.push(id);
        group.structural |= structural;
        group.contraction |= contraction;
        let (low, high) = self.ends[number as usize];
        self.extend(number, low.min(id), high.max(id));
        for &operand in &self.graph.node(id).operands {
            add_readers(&mut self.readers[operand.index()], &[number]);
        }
    }

    fn extend(&mut self, number: GroupId, low: NodeId, high: NodeId) {
        self.ends[number as usize] = (low, high);
        self.spans.add(low, high);
    }

    fn group(&self, number: GroupId) -> &Group {
        self.groups[number as usize].as_ref().unwrap_or_else(|| panic!("group {number} has merged away"))
    }

    fn group_mut(&mut self, number: GroupId) -> &mut Group {
        self.groups[number as usize].as_mut().unwrap_or_else(|| panic!("group {number} has merged away"))
    }

    fn refuse(&mut self, producer: NodeId, number: GroupId, blocker: Blocker) {
        let consumer = self.group(number).roots[0];
        self.refusals.push(Refusal { producer, consumer, blocker });
    }

    /// Decides where a computed node runs.
    fn place(&mut self, id: NodeId) {
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
        } else if !stored && self.cheap_to_repeat(id, &readers) {
            self.duplicated[id.index()] = true;
            return self.pass_on(id);
        } else if readers.len() > 1 && !self.stores_into_reader(id, &readers) {
            let blocker = Blocker::Shared { readers: readers.len() };
            readers.iter().for_each(|&reader| self.refuse(id, reader, blocker.clone()));
        } else if readers.len() > 1 {
            return;
        }
        self.stored[id.index()] = true;
        self.new_group(id);
    }

    /// Stores a value that is only moved, from within a kernel that reads it
    /// if one can.
    fn place_moved(&mut self, id: NodeId) {
        let readers = self.readers[id.index()].clone();
        if !self.stores_into_reader(id, &readers) {
            self.new_group(id);
        }
    }

    /// Merges kernels that read the same value, as far as they go together.
    fn merge_readers(&mut self, readers: &mut Readers) {
        if readers.len() > MAX_SIBLINGS {
            return;
        }
        let mut kept = Readers::new();
        for &reader in readers.iter() {
            let into = kept.iter().copied().find(|&other| self.try_merge(other, reader));
            if into.is_none() {
                kept.push(reader);
            }
        }
        *readers = kept;
    }

    /// Stores the value from within one of the kernels that read it.
    fn stores_into_reader(&mut self, id: NodeId, readers: &Readers) -> bool {
        // A contraction below takes this value and elementwise readers as its
        // epilogue, but no kernel with rows.
        let epilogue = self.fed_by_contraction(id);
        for &reader in readers {
            if epilogue && self.group(reader).structural {
                continue;
            }
            let before_others = readers.iter().all(|&other| other == reader || !self.depends(reader, other));
            if before_others && self.try_join(reader, id, true).is_ok() {
                self.stored[id.index()] = true;
                return true;
            }
        }
        false
    }

    fn fed_by_contraction(&self, id: NodeId) -> bool {
        let mut pending: SmallVec<[(NodeId, u32); 8]> = smallvec::smallvec![(id, 0)];
        while let Some((node, depth)) = pending.pop() {
            if matches!(self.graph.node(node).op, Op::Contract(_)) {
                return true;
            }
            let through = matches!(self.classes[node.index()], Class::Pointwise | Class::Movement);
            let own = node == id || self.uses[node.index()] == 1;
            if through && own && depth < 8 {
                pending.extend(self.graph.node(node).operands.iter().map(|&operand| (operand, depth + 1)));
            }
        }
        false
    }

    /// Whether computing the value in each kernel that reads it moves no
    /// more bytes than storing it once.
    fn cheap_to_repeat(&self, id: NodeId, readers: &Readers) -> bool {
        let node = self.graph.node(id);
        let (Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_)) = node.op else { return false };
        // A contraction would repeat its operands' work once more, per block.
        if readers.len() < 2 || readers.iter().any(|&reader| self.group(reader).contraction) {
            return false;
        }
        let flops = if let Op::Alu(op) = node.op { op.flops() } else { 1 };
        let mut loads = 0u64;
        let mut newly_stored = 0u64;
        for &operand in &node.operands {
            let bytes = self.source_bytes(operand);
            loads += bytes;
            let computed = matches!(self.classes[operand.index()], Class::Structural | Class::Opaque);
            if computed && self.uses[operand.index()] == 1 {
                newly_stored += 2 * bytes;
            }
        }
        let readers = readers.len() as u64;
        let work = (readers - 1) * node.ty.shape.numel() as u64 * flops / FLOPS_PER_BYTE;
        let repeat = readers * loads + newly_stored + work;
        let store = loads + readers * node.ty.bytes() as u64;
        repeat <= store
    }

    /// Bytes read to have a value: nothing for sources; for movement, no
    /// more than what it moves.
    fn source_bytes(&self, id: NodeId) -> u64 {
        let mut node = id;
        let mut bytes = self.graph.ty(id).bytes() as u64;
        while self.classes[node.index()] == Class::Movement && !self.stored[node.index()] {
            node = self.graph.node(node).operands[0];
            bytes = bytes.min(self.graph.ty(node).bytes() as u64);
        }
        if self.classes[node.index()] == Class::Source { 0 } else { bytes }
    }

    /// Computes a node in a kernel that reads it.
    fn try_join(&mut self, number: GroupId, id: NodeId, store: bool) -> Result<(), Blocker> {
        let group = self.group(number);
        let leader = group.roots[0];
        let leads = self.classes[leader.index()];
        if leads == Class::Opaque || (leads == Class::Scatter && store) {
            return Err(Blocker::Opaque(self.graph.node(leader).op.name()));
        }
        if self.graph.ty(leader).device != self.graph.ty(id).device {
            return Err(Blocker::Opaque("copy"));
        }
        if group.members.len() >= MAX_MEMBERS {
            return Err(Blocker::TooLarge(MAX_MEMBERS));
        }
        self.not_expanded(group, id)?;
        if self.joins_freely(number, id, store) {
            self.join(number, id);
            return Ok(());
        }
        let mut roots = group.roots.clone();
        if store {
            let place = roots.partition_point(|&root| root < id);
            roots.insert(place, id);
        }
        let kernel = self.lower(&[number], Some(id), &roots)?;
        self.join(number, id);
        let group = self.group_mut(number);
        group.roots = roots;
        group.kernel = Some(kernel);
        Ok(())
    }

    /// Whether lowering cannot fail: an elementwise node read in one way.
    fn joins_freely(&self, number: GroupId, id: NodeId, store: bool) -> bool {
        let pointwise = self.classes[id.index()] == Class::Pointwise;
        pointwise && !store && self.uses[id.index()] == 1 && !self.group(number).contraction
    }

    /// Refuses costly work that the kernel would do once per element of an
    /// expansion. Row kernels hoist such work out of their rows.
    fn not_expanded(&self, group: &Group, id: NodeId) -> Result<(), Blocker> {
        let node = self.graph.node(id);
        let Op::Alu(op) = &node.op else { return Ok(()) };
        let widest = group.roots.iter().map(|&root| self.graph.ty(root).shape.numel()).max().unwrap_or(0);
        let own = node.ty.shape.numel().max(1);
        let rows = group.structural && !group.contraction;
        if op.flops() >= 10 && widest / own >= 4 && widest > SMALL && !rows {
            return Err(Blocker::Expanded { times: widest / own });
        }
        Ok(())
    }

    /// Makes two groups that read the same value one.
    fn try_merge(&mut self, into: GroupId, from: GroupId) -> bool {
        match self.merged(into, from) {
            Ok(group) => {
                for &member in &group.members {
                    self.group_of[member.index()] = Some(into);
                }
                // Readers are renamed lazily: members are few, nodes many.
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
    fn rename_reader(&mut self, id: NodeId, from: GroupId, into: GroupId) {
        let mut pending: SmallVec<[NodeId; 8]> = smallvec::smallvec![id];
        while let Some(node) = pending.pop() {
            let readers = &mut self.readers[node.index()];
            let Some(place) = readers.iter().position(|&reader| reader == from) else { continue };
            readers.remove(place);
            add_readers(readers, &[into]);
            let passes = self.classes[node.index()] == Class::Movement || self.duplicated[node.index()];
            if passes && self.group_of[node.index()].is_none() {
                pending.extend(self.graph.node(node).operands.iter().copied());
            }
        }
    }

    fn merged(&self, into: GroupId, from: GroupId) -> Result<Group, Blocker> {
        let (a, b) = (self.group(into), self.group(from));
        for leader in [a.roots[0], b.roots[0]] {
            if matches!(self.classes[leader.index()], Class::Opaque | Class::Scatter) {
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
        if self.depends_apart(into, from) || self.depends_apart(from, into) {
            return Err(Blocker::Cycle);
        }
        let mut roots: Vec<NodeId> = a.roots.iter().chain(&b.roots).copied().collect();
        roots.sort_unstable();
        let kernel = self.lower(&[into, from], None, &roots)?;
        let members = a.members.iter().chain(&b.members).copied().collect();
        Ok(Group {
            members,
            roots,
            kernel: Some(kernel),
            structural: a.structural || b.structural,
            contraction: a.contraction || b.contraction,
        })
    }

    /// Lowers the union of some groups and perhaps one more node, and judges
    /// the kernel.
    fn lower(&self, numbers: &[GroupId], extra: Option<NodeId>, roots: &[NodeId]) -> Result<Kernel, Blocker> {
        let inside = |id: NodeId| {
            let index = id.index();
            let here = Some(id) == extra || self.group_of[index].is_some_and(|g| numbers.contains(&g));
            let moves = self.classes[index] == Class::Movement && !self.stored[index];
            here || moves || self.duplicated[index]
        };
        let role = |id: NodeId| if inside(id) { Role::Inside } else { Role::Buffer };
        let request = Request { graph: self.graph, roots, role: &role, layouts: self.context.layouts };
        let kernel = lower(&request)?;
        self.judge(&kernel, roots)?;
        Ok(kernel)
    }

    fn judge(&self, kernel: &Kernel, roots: &[NodeId]) -> Result<(), Blocker> {
        let capabilities = (self.context.capabilities)(self.graph.ty(roots[0]).device);
        let found = kernel.inputs.len() + kernel.stores.len();
        if found > capabilities.max_bindings && kernel.inputs.len() > 1 {
            return Err(Blocker::Bindings { found, limit: capabilities.max_bindings });
        }
        let (rows, extent) = (kernel.level_points(0), kernel.level_points(1));
        let stores_rows = kernel.contraction.is_none() && kernel.stores.iter().any(|s| s.level > 0);
        if stores_rows && rows < 2 * capabilities.workers && rows.saturating_mul(extent) > SMALL {
            return Err(Blocker::TooFewRows { rows, extent });
        }
        Ok(())
    }

    /// Whether group `a` needs a result of group `b`, directly or not.
    fn depends(&self, a: GroupId, b: GroupId) -> bool {
        self.reaches(a, b, false)
    }

    /// Whether group `a` needs a result of group `b` through some other step.
    fn depends_apart(&self, a: GroupId, b: GroupId) -> bool {
        self.reaches(a, b, true)
    }

    fn reaches(&self, a: GroupId, b: GroupId, apart: bool) -> bool {
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

    /// Merges kernels that read the same stored value and have one form.
    fn merge_siblings(&mut self) {
        for id in self.graph.ids() {
            let in_memory = self.classes[id.index()] == Class::Input || self.stored[id.index()];
            let readers = self.readers[id.index()].clone();
            if !in_memory || !(2..=MAX_SIBLINGS).contains(&readers.len()) {
                continue;
            }
            let mut kept = Readers::new();
            for &reader in &readers {
                let own = self.group_of[id.index()] == Some(reader);
                let alike = |other: GroupId| self.same_form(id, other, reader);
                let candidates: Readers = kept.iter().copied().filter(|&o| !own && alike(o)).collect();
                if !candidates.into_iter().any(|other| self.try_merge(other, reader)) && !own {
                    kept.push(reader);
                }
            }
        }
    }

    /// Whether two kernels range over the value they share in the same way.
    fn same_form(&self, shared: NodeId, a: GroupId, b: GroupId) -> bool {
        let (a, b) = (self.group(a), self.group(b));
        let numel = |group: &Group| group.roots.iter().map(|&r| self.graph.ty(r).shape.numel()).max();
        let large = self.graph.ty(shared).shape.numel() * 4 >= numel(a).max(numel(b)).unwrap_or(0);
        large && numel(a) == numel(b) && !a.contraction && !b.contraction
    }

    /// Lowers every kernel for good; a group that no longer lowers falls
    /// apart into its nodes.
    fn finish(mut self) -> Fusion {
        let mut number = 0;
        while number < self.groups.len() {
            if self.groups[number].is_some() {
                self.finish_group(number as GroupId);
            }
            number += 1;
        }
        Fusion { groups: self.groups.into_iter().flatten().collect(), refusals: self.refusals }
    }

    fn finish_group(&mut self, number: GroupId) {
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
    fn lower_alone(&self, number: GroupId, roots: &[NodeId]) -> Result<Kernel, Blocker> {
        let inside = |id: NodeId| {
            let moves = self.classes[id.index()] == Class::Movement && !self.stored[id.index()];
            self.group_of[id.index()] == Some(number) || moves || self.duplicated[id.index()]
        };
        let role = |id: NodeId| if inside(id) { Role::Inside } else { Role::Buffer };
        lower(&Request { graph: self.graph, roots, role: &role, layouts: self.context.layouts })
    }

    fn fall_apart(&mut self, number: GroupId) {
        let Some(group) = self.groups[number as usize].take() else { return };
        for &member in &group.members {
            self.stored[member.index()] = true;
            let apart = self.groups.len() as GroupId;
            self.groups.push(Some(Group { members: vec![member], roots: vec![member], ..Group::default() }));
            self.group_of[member.index()] = Some(apart);
        }
    }
}

fn add_readers(readers: &mut Readers, more: &[GroupId]) {
    for &reader in more {
        if !readers.contains(&reader) {
            readers.push(reader);
        }
    }
}
