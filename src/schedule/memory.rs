//! The memory plan: which values share memory, and where.
//!
//! A value is written by one step and read by later ones. Values that are
//! the same memory by construction (a scatter and its base) or by choice (an
//! output written exactly where a dying input is read) form one *storage*; what
//! is packed has one together, each value at its offset.
//! Storages that hold a result of the graph are buffers of their own; the
//! others get offsets in one arena per device, so that no two that are alive
//! at once overlap. Where kernels may not read and write one buffer, an arena
//! is cut into buffers, each of one storage at a time.

use std::collections::HashMap;

use crate::base::Device;
use crate::ir::{Graph, NodeId, NodeIds, Op};
use crate::kernel::{Expr, Kernel, KernelStore};
use crate::runtime::InPlace;
use crate::schedule::live_intervals::LiveIntervals;
use crate::schedule::order::Step;

/// Every storage starts at a multiple of this many bytes.
pub const ALIGN: usize = 256;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The n-th parameter's memory.
    Param(u32),
    /// The n-th result buffer, from this byte.
    Result(u32, usize),
    /// In the arena of the value's device, from this byte.
    Arena(usize),
}

impl Location {
    /// The location `bytes` further.
    fn advanced(self, bytes: usize) -> Location {
        match self {
            Location::Param(number) => Location::Param(number),
            Location::Result(number, start) => Location::Result(number, start + bytes),
            Location::Arena(start) => Location::Arena(start + bytes),
        }
    }
}

/// A result buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultBuffer {
    /// The value that is there in the end.
    pub node: NodeId,
    /// Where it is allocated.
    pub device: Device,
    /// Its size.
    pub bytes: usize,
    /// The parameter whose memory it takes over, if one is donated.
    pub donated: Option<u32>,
}

/// The memory plan.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlan {
    /// The location of each stored value.
    pub locations: HashMap<NodeId, Location>,
    /// The result buffers, by number.
    pub results: Vec<ResultBuffer>,
    /// Bytes of each device's arena.
    pub arenas: Vec<(Device, usize)>,
    /// Where an arena is cut into buffers: the devices, and where each buffer starts, ascending.
    pub cuts: Vec<(Device, usize)>,
    /// The storages in the arenas, for the checker and for people.
    pub storages: Vec<Storage>,
}

impl MemoryPlan {
    /// Whether a step copies a parameter to where that is already: a scatter's base in memory that its
    /// result takes over.
    pub fn is_there_already(&self, graph: &Graph, step: &Step) -> bool {
        let (Some(kernel), [input], [output]) = (step.kernel(), &step.inputs[..], &step.outputs[..]) else {
            return false;
        };
        let (Op::Param(param, _), Some(Location::Result(number, 0))) =
            (&graph.node(*input).op, self.locations.get(output))
        else {
            return false;
        };
        let [store] = &kernel.stores[..] else { return false };
        let Expr::Load(_, access) = kernel.expr(store.value) else { return false };
        let same = access.affine == store.address && access.dynamic.is_empty() && access.guard.is_always();
        same && store.dtype == graph.ty(*input).dtype
            && self.results[*number as usize].donated == Some(*param)
    }
}

impl MemoryPlan {
    /// Where a storage starts in an arena that is cut: the smallest buffer that is free while it lives, or a new one at
    /// the end. Storages come in falling order of size, so that each fits every buffer there is.
    fn buffer_for(&mut self, storages: &[Storage], placed: &LiveIntervals, number: usize) -> usize {
        let new = &storages[number];
        let other = |i: &usize| storages[*i].device == new.device;
        let busy: Vec<usize> =
            placed.overlapping(new.first, new.last).filter(other).map(|i| storages[i].offset).collect();
        let own = self.cuts.iter().filter(|cut| cut.0 == new.device).map(|cut| cut.1);
        if let Some(free) = own.rev().find(|start| !busy.contains(start)) {
            return free;
        }
        let end = self.arenas.iter().find(|arena| arena.0 == new.device).map_or(0, |arena| arena.1);
        self.cuts.push((new.device, end));
        end
    }

    /// The buffers of an arena, each with its start and end.
    pub fn buffers(&self, (device, bytes): (Device, usize)) -> Vec<(usize, usize)> {
        let cuts = self.cuts.iter().filter(|cut| cut.0 == device).map(|cut| cut.1);
        let ends = cuts.clone().skip(1).chain([bytes]);
        let cut: Vec<(usize, usize)> = cuts.zip(ends).collect();
        if cut.is_empty() { vec![(0, bytes)] } else { cut }
    }
}

/// Memory that one or more values share.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The values.
    pub nodes: NodeIds,
    /// Where.
    pub device: Device,
    /// Bytes needed.
    pub bytes: usize,
    /// The step that first writes it.
    pub first: usize,
    /// The last step that uses it.
    pub last: usize,
    /// Byte offset in the arena; unused for results.
    pub offset: usize,
    /// The parameter whose memory it is.
    donated: Option<u32>,
    /// Whether it holds a result of the graph.
    result: bool,
    /// The last step that uses the newest value in it.
    newest_last: usize,
}

/// What is known of parameters' memory.
pub struct Params<'a> {
    /// Whether the n-th may be overwritten.
    pub donated: &'a dyn Fn(u32) -> bool,
    /// The first of those whose memory the n-th shares; perhaps itself.
    pub first_with: &'a dyn Fn(u32) -> u32,
}

/// Assigns memory. `in_place` says which kernels of a device may write over inputs.
pub fn plan(
    graph: &Graph,
    steps: &[Step],
    params: &Params<'_>,
    in_place: &dyn Fn(Device) -> InPlace,
) -> MemoryPlan {
    let last_uses = last_uses(graph, steps);
    let results = graph.results();
    let becoming = becoming_results(graph);
    let packed = packed(graph);
    let views = views_by_memory(graph, params);
    // Overwriting a parameter is safe only once nothing can fail any more:
    // after an error, the graph must still compute the same.
    let safe_from = steps.iter().rposition(fallible).map_or(0, |last| last + 1);
    let mut storages = Storages::default();
    for (now, step) in steps.iter().enumerate() {
        let mut taken: Vec<ReusedMemory> = Vec::new();
        let in_place = in_place(step.device);
        for &output in &step.outputs {
            let fresh = |node: NodeId| Storage {
                nodes: NodeIds::from_slice(&[node]),
                device: graph.ty(node).device,
                bytes: graph.ty(node).bytes(),
                first: now,
                last: last_uses[node.index()],
                offset: 0,
                donated: None,
                result: results[node.index()],
                newest_last: last_uses[node.index()],
            };
            if let Some(part) = packed.get(&output) {
                storages.put_part(output, fresh(output), part.pack, || fresh(part.pack));
                continue;
            }
            let donated =
                |param: u32| becoming[output.index()] && now >= safe_from && (params.donated)(param);
            let params = Params { donated: &donated, ..*params };
            let (last_uses, views, packed, taken_now) = (&last_uses, &views, &packed, &taken[..]);
            let look =
                ReuseQuery { graph, step, now, last_uses, params, views, packed, in_place, taken: taken_now };
            let found = look.shared(output, &storages);
            taken.extend(found);
            storages.put(output, fresh(output), found);
        }
    }
    one_owner_per_param(&mut storages.all);
    assign(graph, storages.all, &packed, in_place)
}

/// Of each node, whether its memory holds a result in the end: it is one, or the base of a scatter
/// that is.
pub(super) fn becoming_results(graph: &Graph) -> Vec<bool> {
    let mut becoming = graph.results();
    for id in graph.ids().rev() {
        if matches!(graph.node(id).op, Op::Scatter(..)) && becoming[id.index()] {
            becoming[graph.node(id).operands[0].index()] = true;
        }
    }
    becoming
}

/// The storages so far.
#[derive(Default)]
struct Storages {
    all: Vec<Storage>,
    /// By value: its storage.
    of: HashMap<NodeId, usize>,
}

impl Storages {
    fn open(&mut self, storage: Storage) -> usize {
        self.all.push(storage);
        self.all.len() - 1
    }

    /// Assigns an output to the memory it reuses, or to memory of its own.
    fn put(&mut self, output: NodeId, fresh: Storage, found: Option<ReusedMemory>) {
        let number = match found {
            Some(ReusedMemory::Storage(number)) => {
                self.all[number].newest_last = 0;
                self.all[number].add(fresh);
                number
            }
            Some(ReusedMemory::Param(param)) => self.open(Storage { donated: Some(param), ..fresh }),
            None => self.open(fresh),
        };
        self.of.insert(output, number);
    }

    /// Assigns an output to its slice of a pack.
    fn put_part(&mut self, output: NodeId, fresh: Storage, pack: NodeId, whole: impl FnOnce() -> Storage) {
        let number = match self.of.get(&pack) {
            Some(&number) => number,
            None => self.open(whole()),
        };
        self.all[number].add(fresh);
        self.of.insert(pack, number);
        self.of.insert(output, number);
    }
}

impl Storage {
    /// Adds another value.
    fn add(&mut self, other: Storage) {
        self.nodes.extend(other.nodes);
        self.last = self.last.max(other.last);
        self.newest_last = self.newest_last.max(other.newest_last);
        self.result |= other.result;
    }
}

/// The parameters in one memory, by the first of them.
fn views_by_memory(graph: &Graph, params: &Params<'_>) -> HashMap<u32, Vec<(u32, NodeId)>> {
    let mut views: HashMap<u32, Vec<(u32, NodeId)>> = HashMap::new();
    for id in graph.ids() {
        if let Op::Param(number, _) = graph.node(id).op {
            views.entry((params.first_with)(number)).or_default().push((number, id));
        }
    }
    views
}

/// Where a value is within a pack.
struct PackSlice {
    pack: NodeId,
    /// In bytes.
    start: usize,
}

/// The values that are computed within packs. A scatter's base is where the
/// scatter is.
fn packed(graph: &Graph) -> HashMap<NodeId, PackSlice> {
    let mut packed: HashMap<NodeId, PackSlice> = HashMap::new();
    for pack in graph.ids().rev() {
        let node = graph.node(pack);
        if let Op::Pack(packing) = &node.op {
            for (&operand, start) in node.operands.iter().zip(&packing.starts) {
                packed.insert(operand, PackSlice { pack, start: start * node.ty.dtype.size() });
            }
        } else if let (Op::Scatter(..), Some(&PackSlice { pack, start })) = (&node.op, packed.get(&pack)) {
            packed.insert(node.operands[0], PackSlice { pack, start });
        }
    }
    packed
}

/// The last step that reads each node; results are read at the end. Whoever
/// reads a pack reads all of it.
fn last_uses(graph: &Graph, steps: &[Step]) -> Vec<usize> {
    let mut last = vec![0; graph.nodes.len()];
    for (now, step) in steps.iter().enumerate() {
        let read = step.inputs.iter().flat_map(|id| graph.pieces(id).iter().chain([id]));
        read.chain(&step.outputs).for_each(|id| last[id.index()] = now);
    }
    graph.outputs.iter().for_each(|output| last[output.index()] = steps.len());
    graph
        .results()
        .iter()
        .zip(&mut last)
        .filter(|(result, _)| **result)
        .for_each(|(_, last)| *last = steps.len());
    last
}

/// Whether a step can fail, on data or in the driver.
pub(super) fn fallible(step: &Step) -> bool {
    let Some(kernel) = step.kernel() else { return true };
    kernel.reports()
}

/// Memory that an output reuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReusedMemory {
    Storage(usize),
    Param(u32),
}

/// A query: which memory can an output of a step reuse?
struct ReuseQuery<'a> {
    graph: &'a Graph,
    step: &'a Step,
    now: usize,
    last_uses: &'a [usize],
    /// Which parameters the output may take over.
    params: Params<'a>,
    views: &'a HashMap<u32, Vec<(u32, NodeId)>>,
    packed: &'a HashMap<NodeId, PackSlice>,
    /// Which kernels may write over inputs.
    in_place: InPlace,
    /// What the step's other outputs take over.
    taken: &'a [ReusedMemory],
}

impl ReuseQuery<'_> {
    /// Memory that an output takes over from an input of the same step.
    fn shared(&self, output: NodeId, storages: &Storages) -> Option<ReusedMemory> {
        let kernel = self.step.kernel()?;
        if kernel.scatter().is_some() {
            let base = self.graph.node(output).operands[0];
            return storages.of.get(&base).map(|&number| ReusedMemory::Storage(number));
        }
        let number = self.step.outputs.iter().position(|&id| id == output)?;
        let store = &kernel.stores[number];
        // A sum that goes to memory as it is may be written block by block.
        let sum = matches!(kernel.exprs[store.value.index()].expr, Expr::Accumulator);
        let may = match self.in_place {
            InPlace::Never => false,
            InPlace::SingleOutput => kernel.stores.len() == 1,
            InPlace::AnyOutputs => kernel.stores.len() == 1 || !sum && writes_last(kernel),
        };
        if !may {
            return None;
        }
        let mut inputs = self.step.inputs.iter().enumerate();
        inputs.find_map(|(slot, input)| {
            let ty = self.graph.ty(*input);
            let fits = ty.bytes() == self.graph.ty(output).bytes() && ty.dtype.size() == store.dtype.size();
            let dies = self.last_uses[input.index()] == self.now;
            // A part of a pack has no memory to give, nor has a pack of which a
            // part is read by itself.
            let pieces = self.graph.pieces(input);
            let also = |other: &NodeId| other != input && pieces.contains(other);
            let part = self.packed.contains_key(input) || self.step.inputs.iter().any(also);
            if !fits || !dies || part || !read_where_written(kernel, slot as u32, store) {
                return None;
            }
            let source = if let Op::Param(param, _) = self.graph.node(*input).op {
                self.is_donated(param).then_some(ReusedMemory::Param(param))
            } else {
                // A storage that another, still living value shares stays as it is.
                let own = |number: &&usize| {
                    let storage = &storages.all[**number];
                    storage.newest_last == self.now && !storage.result
                };
                storages.of.get(input).filter(own).map(|&number| ReusedMemory::Storage(number))
            };
            source.filter(|source| !self.taken.contains(source))
        })
    }
}

impl ReuseQuery<'_> {
    /// Whether a parameter's memory may be overwritten now: no other view of
    /// it is read from this step on.
    fn is_donated(&self, param: u32) -> bool {
        let mut others = self.views[&(self.params.first_with)(param)].iter().filter(|view| view.0 != param);
        (self.params.donated)(param) && others.all(|(_, id)| self.last_uses[id.index()] < self.now)
    }
}

/// Whether a kernel with several outputs can write them after reading all
/// that is at their points: none is written between its stages, and none is a
/// copy of what another may overwrite.
fn writes_last(kernel: &Kernel) -> bool {
    kernel.stores.iter().all(|store| store.level == 0 && !kernel.is_copy(store.value))
}

/// Whether a kernel reads an input only at the element it then writes, so
/// that writing it in place is safe.
pub(crate) fn read_where_written(kernel: &Kernel, slot: u32, store: &KernelStore) -> bool {
    let mut loads = kernel.exprs.iter().filter_map(|node| Some((node.expr.load()?, node.level)));
    loads.all(|((input, access), level)| {
        input != slot || access.dynamic.is_empty() && access.affine == store.address && level == store.level
    })
}

/// A parameter's memory goes to the first result that can reuse it.
fn one_owner_per_param(storages: &mut [Storage]) {
    let mut owned: Vec<u32> = Vec::new();
    for storage in storages {
        match storage.donated {
            Some(param) if owned.contains(&param) => storage.donated = None,
            Some(param) => owned.push(param),
            None => {}
        }
    }
}

fn assign(
    graph: &Graph,
    mut storages: Vec<Storage>,
    packed: &HashMap<NodeId, PackSlice>,
    in_place: &dyn Fn(Device) -> InPlace,
) -> MemoryPlan {
    let mut memory = MemoryPlan::default();
    let mut arena: Vec<usize> = (0..storages.len()).filter(|&i| !storages[i].result).collect();
    arena.sort_by_key(|&i| (std::cmp::Reverse(storages[i].bytes), storages[i].first));
    let mut placed = LiveIntervals::new(storages.iter().map(|storage| storage.last + 1).max().unwrap_or(0));
    for number in arena {
        let device = storages[number].device;
        storages[number].offset = match in_place(device) {
            InPlace::Never => memory.buffer_for(&storages, &placed, number),
            InPlace::SingleOutput | InPlace::AnyOutputs => lowest_gap(&storages, &placed, number),
        };
        placed.insert(number, storages[number].first, storages[number].last);
        let end = storages[number].offset + storages[number].bytes.next_multiple_of(ALIGN);
        match memory.arenas.iter_mut().find(|arena| arena.0 == device) {
            Some(arena) => arena.1 = arena.1.max(end),
            None => memory.arenas.push((device, end)),
        }
    }
    for storage in &storages {
        let location = if storage.result {
            let (device, bytes) = (storage.device, storage.bytes);
            let whole = |node: &&NodeId| !packed.contains_key(node);
            let node = *storage.nodes.iter().rev().find(whole).unwrap_or(&storage.nodes[0]);
            memory.results.push(ResultBuffer { node, device, bytes, donated: storage.donated });
            Location::Result(memory.results.len() as u32 - 1, 0)
        } else {
            Location::Arena(storage.offset)
        };
        let within = |node: &NodeId| packed.get(node).map_or(0, |part| part.start);
        memory.locations.extend(storage.nodes.iter().map(|node| (*node, location.advanced(within(node)))));
    }
    for id in graph.ids() {
        if let Op::Param(number, _) = graph.node(id).op {
            memory.locations.insert(id, Location::Param(number));
        }
    }
    memory.storages = storages.into_iter().filter(|storage| !storage.result).collect();
    memory
}

/// The lowest offset where a storage fits among those whose live intervals overlap its own.
fn lowest_gap(storages: &[Storage], placed: &LiveIntervals, number: usize) -> usize {
    let new = &storages[number];
    let mut busy: Vec<(usize, usize)> = placed
        .overlapping(new.first, new.last)
        .map(|i| &storages[i])
        .filter(|other| other.device == new.device)
        .map(|s| (s.offset, s.offset + s.bytes.next_multiple_of(ALIGN)))
        .collect();
    busy.sort_unstable();
    let mut offset = 0;
    for (start, end) in busy {
        if offset + new.bytes <= start {
            break;
        }
        offset = offset.max(end);
    }
    offset
}
