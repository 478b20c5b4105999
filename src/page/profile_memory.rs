//! The memory of a profile in blocks over time. What plans take as one block for all their intermediates is
//! shown as those: the plan knows where each is, and the launches when.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Device, Shape, Span};
use crate::page::memory;
use crate::page::texts::Texts;
use crate::plan::observe::ObservedRun;
use crate::plan::report::{BlockKind, MemoryBlock, blocks};
use crate::profile::Profile;
use crate::profile::event::{KernelEvent, MemoryEvent};
use crate::profile::json::{Object, list, optional};

/// What the memory of intermediates is called where it is handed out.
const ARENA: &str = "intermediates";
/// What memory is called that kernels need while they run.
const SCRATCH: &str = "scratch";

/// What tells a result of a plan in the books of a device: operation, shape, line.
type ResultKey = (&'static str, Shape, Span);

/// The run of a plan, once: when each of its steps was launched and was through, in the host's time.
struct Execution {
    run: Arc<ObservedRun>,
    thread: usize,
    steps: Vec<Option<(Duration, Duration)>>,
    last: usize,
    begins: Duration,
    /// The devices whose intermediates have been found.
    shown: Vec<Device>,
}

/// Memory that was in use.
struct Held<'a> {
    event: &'a MemoryEvent,
    /// Whether it was there before the profile.
    old: bool,
    start: Duration,
    end: Duration,
}

/// The blocks as JSON; none unless memory was profiled.
pub(super) fn json(profile: &Profile, runs: &[Arc<ObservedRun>], texts: &mut Texts) -> String {
    let held = held(profile);
    let results = results(runs);
    let mut executions = executions(profile);
    let mut out = Vec::new();
    for block in &held {
        let MemoryEvent { device, bytes, name, .. } = *block.event;
        let parent = out.len();
        out.push(block.json(&results, texts).end());
        if name == ARENA
            && let Some(at) = executions.iter().position(|one| one.uses(device, bytes, block))
        {
            let execution = &mut executions[at];
            execution.shown.push(device);
            out.extend(execution.inside(device, block).into_iter().map(|(inner, times)| {
                timed(memory::json(&inner, texts), times).value("parent", parent).end()
            }));
        }
    }
    let before = before(profile).into_iter().map(|(device, bytes)| {
        let parts = runs.iter().max_by_key(|run| run.inputs.len()).map(|run| stays(run, device));
        Object::new()
            .text("device", &device.to_string())
            .value("bytes", bytes)
            .value(
                "parts",
                list(parts.unwrap_or_default().iter().map(|part| memory::json(part, texts).end())),
            )
            .end()
    });
    let before = list(before.collect::<Vec<_>>());
    Object::new().value("blocks", list(out)).value("before", before).end()
}

fn timed(object: Object, (start, end): (Duration, Duration)) -> Object {
    object.float("start", start.as_secs_f64()).float("end", end.as_secs_f64())
}

/// Every block, from when it was handed out, or the beginning, to when it came back, or the end.
fn held(profile: &Profile) -> Vec<Held<'_>> {
    let (mut open, mut found): (HashMap<(Device, u64), &MemoryEvent>, _) = (HashMap::new(), Vec::new());
    for event in profile.memory_events() {
        let key = (event.device, event.block);
        if event.allocated {
            open.insert(key, event);
        } else {
            let handed_out = open.remove(&key);
            let (old, start) = (handed_out.is_none(), handed_out.map_or(Duration::ZERO, |start| start.time));
            found.push(Held { event, old, start, end: event.time });
        }
    }
    let left =
        open.into_values().map(|event| Held { event, old: false, start: event.time, end: profile.span });
    found.extend(left);
    found.sort_by_key(|held| (held.start, held.event.block));
    found
}

/// Bytes in use on each device when the profile began.
fn before(profile: &Profile) -> Vec<(Device, u64)> {
    let mut found: Vec<(Device, u64)> = Vec::new();
    for event in profile.memory_events() {
        if !found.iter().any(|known| known.0 == event.device) {
            let bytes = match event.allocated {
                true => event.in_use.saturating_sub(event.bytes),
                false => event.in_use.saturating_add(event.bytes),
            };
            found.push((event.device, bytes));
        }
    }
    found
}

/// The inputs of a plan that stay from run to run: the state of an optimizer, and parameters unless their new
/// values get memory of their own.
fn stays(run: &ObservedRun, device: Device) -> Vec<MemoryBlock> {
    let mut blocks = blocks(run);
    blocks.retain(|block| block.device == device);
    let replaced = blocks.iter().any(|block| block.result.is_some() && block.kind == BlockKind::Optimizer);
    let stays = |block: &MemoryBlock| {
        block.kind == BlockKind::Optimizer || (block.kind == BlockKind::Parameter && !replaced)
    };
    blocks.retain(|block| block.is_input && stays(block));
    blocks
}

/// What the results of plans are for, as they are found in the books.
fn results(runs: &[Arc<ObservedRun>]) -> HashMap<ResultKey, MemoryBlock> {
    let mut found = HashMap::new();
    for run in runs {
        let (graph, memory) = (&run.plan.schedule.graph, &run.plan.schedule.memory);
        for block in blocks(run) {
            let Some(result) = block.result.map(|number| &memory.results[number]) else { continue };
            let node = graph.node(result.node);
            let key = (node.op.name(), node.ty.shape.clone(), run.call(result.node).span);
            found.entry(key).or_insert(block);
        }
    }
    found
}

/// The runs of plans, told by their launches: a step that is not after the one before begins another.
fn executions(profile: &Profile) -> Vec<Execution> {
    let mut events: Vec<&KernelEvent> = profile.kernels().collect();
    events.sort_by_key(|event| event.launched);
    let mut found: Vec<Execution> = Vec::new();
    for event in events {
        let (run, step) = (&event.launched_by.run, event.launched_by.step);
        let end = if event.launching.is_zero() { event.end } else { event.launched + event.launching };
        let same = |one: &Execution| Arc::ptr_eq(&one.run.plan, &run.plan) && one.thread == event.thread;
        let known = found.iter().rposition(same).filter(|&at| found[at].last < step);
        let at = known.unwrap_or_else(|| {
            let steps = vec![None; run.plan.schedule.steps.len()];
            let (thread, begins) = (event.thread, event.launched);
            found.push(Execution { run: run.clone(), thread, steps, last: step, begins, shown: Vec::new() });
            found.len() - 1
        });
        let execution = &mut found[at];
        execution.last = step;
        execution.steps[step] = Some((event.launched, end));
    }
    found
}

impl Execution {
    /// Whether its intermediates are in a block.
    fn uses(&self, device: Device, bytes: u64, block: &Held<'_>) -> bool {
        let arenas = &self.run.plan.schedule.memory.arenas;
        (block.start..=block.end).contains(&self.begins)
            && !self.shown.contains(&device)
            && arenas.iter().any(|arena| arena.0 == device && arena.1 as u64 == bytes)
    }

    /// The intermediates in a block, with their times.
    fn inside(&self, device: Device, held: &Held<'_>) -> Vec<(MemoryBlock, (Duration, Duration))> {
        let own =
            blocks(&self.run).into_iter().filter(|block| block.offset.is_some() && block.device == device);
        let times = |block: MemoryBlock| {
            let (first, last) = (block.first, block.last);
            let start = self.steps[first..].iter().flatten().next().map_or(held.start, |times| times.0);
            let end = self.steps[..=last].iter().rev().flatten().next().map_or(held.end, |times| times.1);
            (block, (start.clamp(held.start, held.end), end.clamp(held.start, held.end).max(start)))
        };
        own.map(times).collect()
    }
}

impl Held<'_> {
    fn json(&self, results: &HashMap<ResultKey, MemoryBlock>, texts: &mut Texts) -> Object {
        let event = self.event;
        let known = event.at.and_then(|at| results.get(&(event.name, event.shape.clone(), at)));
        let object = match known {
            Some(block) => memory::json(block, texts),
            None => {
                let kind = match event.name {
                    ARENA => "arena",
                    SCRATCH => "scratch",
                    _ => "other",
                };
                Object::new()
                    .text("device", &event.device.to_string())
                    .text("kind", kind)
                    .text("name", event.name)
                    .text("label", "")
                    .value("line", optional(event.at.map(|at| texts.line(at))))
                    .text("type", &event.shape.to_string())
                    .value("bytes", event.bytes)
                    .value("parts", "[]")
            }
        };
        timed(object, (self.start, self.end)).value("old", self.old)
    }
}
