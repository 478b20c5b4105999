//! The page of a plan.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::base::{Device, Result};
use crate::page::graph::{GraphData, Peaks};
use crate::page::texts::Texts;
use crate::page::{html, memory};
use crate::plan::PlanReport;
use crate::plan::history::write;
use crate::plan::observe::ObservedRun;
use crate::plan::report::blocks;
use crate::profile::json::{Object, list, optional};

impl PlanReport {
    /// Writes the plan as a page for a browser: one file, which loads nothing else. It draws the kernels with
    /// the operations inside and what they read of each other, shows of each the user's line, its IR and its
    /// program, and draws which block of memory holds what from which step to which.
    ///
    /// Kernels that have not been compiled are, for their programs; and what each device can do at most is
    /// measured for the predictions, once in a process ([`Device::peak_throughput`]).
    ///
    /// # Errors
    /// A file that cannot be written.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let path = std::env::temp_dir().join(format!("kiln-plan-{}.html", std::process::id()));
    /// x.matmul(&x).gelu().plan()?.write_html(&path)?;
    /// assert!(std::fs::read_to_string(&path).is_ok_and(|page| page.contains("matmul_gelu")));
    /// # std::fs::remove_file(path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &html("plan", &[side(self)]))
    }

    /// [`PlanReport::write_html`] of two plans side by side: what the plan costs more or less than the other,
    /// and which kernels were added, removed or changed.
    ///
    /// # Errors
    /// As [`PlanReport::write_html`].
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (before, after) = (x.exp().sum(..).plan()?, x.exp().cumsum(0).sum(..).plan()?);
    /// let path = std::env::temp_dir().join(format!("kiln-plans-{}.html", std::process::id()));
    /// after.write_html_against(&before, &path)?;
    /// assert!(std::fs::read_to_string(&path).is_ok_and(|page| page.contains("cumsum")));
    /// # std::fs::remove_file(path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn write_html_against(&self, before: &PlanReport, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &html("two plans", &[side(before), side(self)]))
    }
}

/// A plan as a side of a page.
fn side(report: &PlanReport) -> Object {
    let mut texts = Texts::default();
    let run = report.observed.as_ref();
    let peaks = peaks(run.into_iter().flat_map(|run| devices(run)));
    let plans: Vec<String> = run.iter().map(|run| json(run, &mut texts, &peaks).0.end()).collect();
    let side = Object::new().value("plans", list(plans)).value("profile", "null");
    side.value("texts", texts.texts()).value("lines", texts.lines())
}

/// The devices that work for a plan.
fn devices(run: &ObservedRun) -> impl Iterator<Item = Device> + '_ {
    run.plan.schedule.steps.iter().map(|step| step.device)
}

/// What devices can do at most; those that are not there are left out.
fn peaks(devices: impl Iterator<Item = Device>) -> Peaks {
    let mut found = Peaks::new();
    for device in devices {
        if !found.contains_key(&device)
            && let Ok(peak) = device.peak_throughput()
        {
            found.insert(device, peak);
        }
    }
    found
}

/// A plan as JSON, which nodes are of which steps, and how many nodes there are.
pub(super) fn json<'a>(
    run: &Arc<ObservedRun>,
    texts: &'a mut Texts,
    peaks: &'a Peaks,
) -> (Object, HashMap<(usize, usize), usize>, usize) {
    let schedule = &run.plan.schedule;
    let data = GraphData::of(run, texts, peaks);
    let (edges, nodes) = (data.edges(), list(data.nodes.iter().map(Object::text_so_far)));
    let (count, node_of) = (data.nodes.len(), data.node_of);
    let address = Arc::as_ptr(&run.plan) as usize;
    let steps = (0..schedule.steps.len()).map(|step| optional(node_of.get(&(address, step))));
    let object = Object::new()
        .value("nodes", nodes)
        .value("edges", edges)
        .value("steps", list(steps))
        .value("inputs", inputs(run, texts))
        .value(
            "arenas",
            list(schedule.memory.arenas.iter().map(|(device, bytes)| {
                Object::new().text("device", &device.to_string()).value("bytes", *bytes).end()
            })),
        )
        .value("blocks", list(blocks(run).iter().map(|block| memory::json(block, texts).end())));
    (object, node_of, count)
}

/// The plan's parameters.
fn inputs(run: &ObservedRun, texts: &mut Texts) -> String {
    list((run.inputs.iter()).map(|input| {
        let object =
            Object::new().text("name", input.name().unwrap_or_default()).text("type", &input.ty.to_string());
        object.value("parameter", input.is_parameter).value("line", texts.line(input.call.span)).end()
    }))
}
