//! The page of a profile.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Result;
use crate::page::graph::Peaks;
use crate::page::texts::Texts;
use crate::page::{html, plan, profile_memory};
use crate::plan::history::write;
use crate::plan::observe::ObservedRun;
use crate::profile::json::{Object, list, optional};
use crate::profile::{DeviceProfile, HostEvent, KernelEvent, Profile, TransferEvent};
use crate::runtime::trace::thread_name;

impl Profile {
    /// Writes the profile as a page for a browser: one file, which loads nothing else. It has the graph of
    /// each plan that ran, with measured times beside predicted ones; a timeline of devices and threads; and
    /// memory over time, if that was profiled, down to the single activations.
    ///
    /// # Errors
    /// A file that cannot be written.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::profile::profile;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (_, profile) = profile(|| x.matmul(&x).realize().map(|_| ()))?;
    /// let path = std::env::temp_dir().join(format!("kiln-profile-{}.html", std::process::id()));
    /// profile.write_html(&path)?;
    /// assert!(std::fs::read_to_string(&path).is_ok_and(|page| page.contains("matmul")));
    /// # std::fs::remove_file(path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &html("profile", &[side(self)]))
    }

    /// [`Profile::write_html`] of two profiles side by side: what took longer or shorter than before, and
    /// which kernels were added, removed or changed.
    ///
    /// # Errors
    /// As [`Profile::write_html`].
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::profile::profile;
    ///
    /// # fn main() -> kiln::Result<()> {
    /// let x = Tensor::ones([64, 64], ());
    /// let (_, before) = profile(|| x.exp().sum(..).realize().map(|_| ()))?;
    /// let (_, after) = profile(|| x.exp().cumsum(0).sum(..).realize().map(|_| ()))?;
    /// let path = std::env::temp_dir().join(format!("kiln-profiles-{}.html", std::process::id()));
    /// after.write_html_against(&before, &path)?;
    /// assert!(std::fs::read_to_string(&path).is_ok_and(|page| page.contains("cumsum")));
    /// # std::fs::remove_file(path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn write_html_against(&self, before: &Profile, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &html("two profiles", &[side(before), side(self)]))
    }
}

/// A profile as a side of a page.
fn side(profile: &Profile) -> Object {
    let mut texts = Texts::default();
    let peaks: Peaks = profile.devices.iter().filter_map(|one| Some((one.device, one.peak?))).collect();
    let (mut plans, mut numbers, mut nodes) = (Vec::new(), HashMap::new(), 0);
    let runs = runs(profile);
    for run in &runs {
        let (object, node_of, count) = plan::json(run, &mut texts, &peaks);
        plans.push(object.end());
        node_of.into_iter().for_each(|(step, node)| _ = numbers.entry(step).or_insert(nodes + node));
        nodes += count;
    }
    let kernels = profile.kernels().filter_map(|event| {
        let launched = &event.launched_by;
        let node = numbers.get(&(Arc::as_ptr(&launched.run.plan) as usize, launched.step))?;
        Some(kernel(event, *node))
    });
    let threads: HashSet<usize> = profile.host_events().map(|event| event.thread).collect();
    let names = threads
        .iter()
        .fold(Object::new(), |names, &thread| names.text(&thread.to_string(), &thread_name(thread)));
    let object = Object::new()
        .float("span", profile.span.as_secs_f64())
        .value("steps", list([profile.steps.0, profile.steps.1]))
        .value("devices", list(profile.devices.iter().map(device)))
        .value("kernels", list(kernels))
        .value("transfers", list(profile.transfers().map(|event| transfer(event, &mut texts))))
        .value("host", list(profile.host_events().map(|event| host(event, &mut texts))))
        .object("threads", names)
        .value("main", profile.main_thread)
        .value("memory", profile_memory::json(profile, &runs, &mut texts));
    let side = Object::new().value("plans", list(plans)).object("profile", object);
    side.value("texts", texts.texts()).value("lines", texts.lines())
}

/// The plans that ran, once each, those of repetitions' bodies left out: they are within others.
fn runs(profile: &Profile) -> Vec<Arc<ObservedRun>> {
    let mut found: Vec<Arc<ObservedRun>> = Vec::new();
    let mut seen = HashSet::new();
    for event in profile.kernels() {
        let run = &event.launched_by.run;
        if seen.insert(Arc::as_ptr(&run.plan)) {
            found.push(run.clone());
        }
    }
    let inside: HashSet<_> = found.iter().flat_map(|run| bodies(run)).collect();
    found.retain(|run| !inside.contains(&Arc::as_ptr(&run.plan)));
    found
}

/// The plans of all bodies within a run.
fn bodies(run: &ObservedRun) -> Vec<*const crate::plan::Plan> {
    let inner = |body: &Arc<ObservedRun>| std::iter::once(Arc::as_ptr(&body.plan)).chain(bodies(body));
    run.bodies.values().flat_map(|body| inner(body).collect::<Vec<_>>()).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.9}", time.as_secs_f64())
}

/// `[node, start, end, time, launched, launching, thread]`.
fn kernel(event: &KernelEvent, node: usize) -> String {
    let times = [event.start, event.end, event.time, event.launched, event.launching].map(seconds);
    format!("[{node}, {}, {}]", times.join(", "), event.thread)
}

fn device(profile: &DeviceProfile) -> String {
    Object::new()
        .text("device", &profile.device.to_string())
        .text("name", &profile.properties.name)
        .value("busy", seconds(profile.busy))
        .value("kernels", seconds(profile.kernels))
        .text("peak", &profile.peak.map(|peak| peak.to_string()).unwrap_or_default())
        .end()
}

fn transfer(event: &TransferEvent, texts: &mut Texts) -> String {
    Object::new()
        .text("from", &event.from.to_string())
        .text("to", &event.to.to_string())
        .value("bytes", event.bytes)
        .value("line", optional(event.at.map(|at| texts.line(at))))
        .text("label", event.label.as_deref().unwrap_or_default())
        .value("thread", event.thread)
        .value("start", seconds(event.start))
        .value("end", seconds(event.end))
        .value("predicted", optional(event.predicted.map(seconds)))
        .end()
}

fn host(event: &HostEvent, texts: &mut Texts) -> String {
    Object::new()
        .text("activity", &format!("{:?}", event.activity).to_lowercase())
        .text("name", event.name.as_deref().unwrap_or_default())
        .value("line", optional(event.at.map(|at| texts.line(at))))
        .text("label", event.label.as_deref().unwrap_or_default())
        .value("thread", event.thread)
        .value("start", seconds(event.start))
        .value("end", seconds(event.end))
        .end()
}
