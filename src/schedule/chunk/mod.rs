//! Chunking, for a value that is too large by itself: its producers and consumers
//! are computed in chunks, one after the other, in the same memory.
//!
//! A region of the graph is cut along an axis in which its parts do not depend
//! on each other. Each chunk reads slices of what comes from outside; what the
//! rest of the graph needs is laid side by side (`Op::Pack`, so that it is
//! computed in its place), or added up where a sum over the axis is all that is
//! needed (a weight's gradient). All of this are ordinary nodes: the rest of the
//! scheduler does not know of chunks, and the memory planner decides whether they fit.
//!
//! Which region, is tried: the values that are there when most memory is in
//! use, the largest first, each along each of its axes; first with the values
//! around it that are about as large, then with smaller ones, at last with all
//! that can be cut along that axis (so a training step becomes one of smaller
//! batches, whose gradients are added up).

mod axis;
mod region;
mod rewrite;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::base::Device;
use crate::ir::NodeId;
use crate::schedule::memory::{self, Params};
use crate::schedule::rematerialize::planned_bytes;
use crate::schedule::{ChunkOrigin, Environment, ScheduledGraph, check, copy_insertion, debug_check, search};

use region::{ChunkRegion, gcd};

/// How many regions are cut, one after the other.
const ROUNDS: usize = 16;
/// How many regions are tried in a round.
const TRIALS: usize = 6;
/// Values looked at in a round, the largest first.
const SEEDS: usize = 4;
/// How much smaller than the value looked at are those cut with it.
const SIZE_RATIOS: [usize; 3] = [2, 16, usize::MAX];
/// No region is cut into more chunks, nor does it become more nodes.
const MAX_CHUNKS: usize = 64;
const MAX_NODES: usize = 3000;
/// How many chunks tell what cutting a region saves.
const TRIED: usize = 8;

/// The schedule, with regions in chunks until results and intermediates take at most
/// `target` bytes on a device; if that cannot be reached, as few as were found. `None` if
/// no chunks save memory.
pub fn fit(
    schedule: &ScheduledGraph,
    environment: &Environment<'_>,
    params: &Params<'_>,
    device: Device,
    target: u64,
) -> Option<ScheduledGraph> {
    let task = ChunkSearch { environment, params, device, target };
    let mut best: Option<ScheduledGraph> = None;
    for _ in 0..ROUNDS {
        let now = best.as_ref().unwrap_or(schedule);
        if planned_bytes(&now.memory, device) <= target {
            break;
        }
        match task.round(now) {
            Some(better) => best = Some(better),
            None => break,
        }
    }
    best
}

struct ChunkSearch<'a> {
    environment: &'a Environment<'a>,
    params: &'a Params<'a>,
    device: Device,
    target: u64,
}

impl ChunkSearch<'_> {
    /// One region cut: the first that can be so that the rest fits, or else the
    /// one that saves most. `None` if none saves anything.
    fn round(&self, schedule: &ScheduledGraph) -> Option<ScheduledGraph> {
        let mut least = planned_bytes(&schedule.memory, self.device);
        let mut best = None;
        for region in self.regions(schedule) {
            let Some(chunked) = self.in_chunks(schedule, &region, TRIED) else { continue };
            let needed = planned_bytes(&chunked.memory, self.device);
            if needed < least {
                (least, best) = (needed, Some(region));
            }
            if needed <= self.target {
                break;
            }
        }
        self.cut(schedule, &best?)
    }

    /// The schedule with a region in as few chunks as fit; in as many as are of
    /// any use, if none do.
    fn cut(&self, schedule: &ScheduledGraph, region: &ChunkRegion) -> Option<ScheduledGraph> {
        let mut best: Option<ScheduledGraph> = None;
        let mut least = planned_bytes(&schedule.memory, self.device);
        for chunks in (1..).map(|power| 1 << power).take_while(|&chunks| chunks <= MAX_CHUNKS) {
            let Some(chunked) = self.in_chunks(schedule, region, chunks) else { break };
            let needed = planned_bytes(&chunked.memory, self.device);
            if needed < least {
                (least, best) = (needed, Some(chunked));
            } else if chunks > TRIED {
                break;
            }
            if least <= self.target {
                break;
            }
        }
        best
    }

    /// The schedule with a region in so many chunks, or fewer if that is as
    /// small as its parts get. `None` if it cannot be cut, or not into so many.
    fn in_chunks(
        &self,
        schedule: &ScheduledGraph,
        region: &ChunkRegion,
        chunks: usize,
    ) -> Option<ScheduledGraph> {
        let units = region.units.div_ceil(chunks).next_multiple_of(self.alignment(schedule, region));
        let fits = units < region.units && region.nodes() * region.units.div_ceil(units) <= MAX_NODES;
        fits.then(|| self.chunked(schedule, region, units))
    }

    /// So many units that each part starts where a device lets outputs start.
    fn alignment(&self, schedule: &ScheduledGraph, region: &ChunkRegion) -> usize {
        let mut step = 1;
        for id in &region.kept {
            let ty = schedule.graph.ty(*id);
            let alignment = (self.environment.capabilities)(ty.device).output_alignment;
            let unit = ty.bytes() / region.units;
            let own = alignment / gcd(alignment, unit);
            step = step / gcd(step, own) * own;
        }
        step
    }

    /// Regions around what is there when most memory is in use: those first that
    /// can be cut into many parts.
    fn regions(&self, schedule: &ScheduledGraph) -> Vec<ChunkRegion> {
        let graph = &schedule.graph;
        let users = graph.users();
        let seeds = self.seeds(schedule);
        let mut found: Vec<ChunkRegion> = Vec::new();
        for ratio in SIZE_RATIOS {
            let from = found.len();
            for &seed in &seeds {
                let shape = &graph.ty(seed).shape;
                for axis in (0..shape.rank()).filter(|&axis| shape[axis] > 1) {
                    let least = (graph.ty(seed).bytes() / ratio).max(1);
                    let region = region::grow_from(graph, &users, seed, axis, least);
                    let new = |region: &ChunkRegion| !found.contains(region) && !region.is_cut(schedule);
                    found.extend(region.filter(new));
                }
            }
            found[from..].sort_by_key(|region| Reverse(region.units.min(MAX_CHUNKS)));
        }
        found.truncate(TRIALS);
        found
    }

    fn seeds(&self, schedule: &ScheduledGraph) -> Vec<NodeId> {
        let storages = schedule.memory.storages.iter().filter(|storage| storage.device == self.device);
        let at = |step: usize| {
            storages.clone().filter(move |storage| storage.first <= step && step <= storage.last)
        };
        let held = |&step: &usize| at(step).map(|storage| storage.bytes).sum::<usize>();
        let Some(most) = (0..schedule.steps.len()).max_by_key(held) else { return Vec::new() };
        let mut there: Vec<_> = at(most).collect();
        there.sort_by_key(|storage| Reverse(storage.bytes));
        there.into_iter().take(SEEDS).map(|storage| storage.nodes[0]).collect()
    }

    /// The schedule of the graph with a region in chunks of so many units.
    fn chunked(&self, schedule: &ScheduledGraph, region: &ChunkRegion, units: usize) -> ScheduledGraph {
        let rewritten = rewrite::rewrite(&schedule.graph, region, units);
        let (graph, placed) = copy_insertion::insert_copies(&rewritten.graph, self.environment.layouts);
        let now = |id: NodeId| rewritten.map[id.index()].map(|id| placed[id.index()]);
        let origins = origins(schedule);
        let first = schedule.chunks.values().map(|part| part.value + 1).max().unwrap_or(0);
        let part = |(new, old): (&NodeId, &NodeId)| {
            Some((placed[new.index()], ChunkOrigin { given: *origins.get(old)?, value: first + old.index() }))
        };
        let mut parts: HashMap<NodeId, ChunkOrigin> = rewritten.parts.iter().filter_map(part).collect();
        parts.extend(schedule.chunks.iter().filter_map(|(&old, &part)| Some((now(old)?, part))));
        let (steps, refusals) = search(&graph, self.environment, self.params);
        debug_check(&graph, || check::check_steps(&graph, &steps));
        let in_place = |device: Device| (self.environment.capabilities)(device).in_place;
        let memory = memory::plan(&graph, &steps, self.params, &in_place);
        debug_check(&graph, || check::check_memory(&graph, &steps, &memory, self.params, &in_place));
        ScheduledGraph {
            steps,
            memory,
            transfers: schedule
                .transfers
                .iter()
                .filter_map(|(&id, moved)| Some((now(id)?, *moved)))
                .collect(),
            refusals,
            decomposed: schedule.decomposed.clone(),
            map: schedule.map.iter().map(|id| id.and_then(now)).collect(),
            inside: schedule.inside.iter().map(|id| id.and_then(now)).collect(),
            from_template: false,
            recomputed: HashMap::new(),
            chunks: parts,
            // A schedule that does not fit retains nothing.
            retained: Vec::new(),
            graph,
        }
    }
}

/// By node of a schedule, the first node of the given graph that it is, or is
/// a part of. What a composite's body has come to is a part of it.
fn origins(schedule: &ScheduledGraph) -> HashMap<NodeId, NodeId> {
    let mut origins: HashMap<NodeId, NodeId> =
        schedule.chunks.iter().map(|(&id, part)| (id, part.given)).collect();
    for (given, id) in schedule.map.iter().enumerate().rev() {
        origins.extend(id.map(|id| (id, NodeId(given as u32))));
    }
    // Users come after what they use.
    for (number, node) in schedule.graph.nodes.iter().enumerate().rev() {
        let Some(&origin) = origins.get(&NodeId(number as u32)) else { continue };
        for &operand in &node.operands {
            origins.entry(operand).or_insert(origin);
        }
    }
    origins
}
