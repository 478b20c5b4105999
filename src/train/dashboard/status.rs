//! What a dashboard shows: the numbers of a training, as they come.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::base::progress::Task;
use crate::runtime::MemoryStats;
use crate::train::record::{Phase, Record, StepRecord};

/// Points after which a curve is thinned out.
const MOST_POINTS: usize = 4096;
/// The time over which speeds are averages.
const PACE: Duration = Duration::from_secs(10);
/// The least time between two notes of the pace.
const NOTE: Duration = Duration::from_millis(50);

/// A number over the steps.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub name: String,
    pub phase: Phase,
    /// Steps and values, all finite.
    pub points: Vec<(f64, f64)>,
    /// The last value, finite or not.
    pub last: f64,
}

impl Curve {
    fn add(&mut self, step: u64, value: f64) {
        self.last = value;
        if value.is_finite() {
            self.points.push((step as f64, value));
        }
        if self.points.len() == MOST_POINTS {
            let middle = |two: &[(f64, f64)]| ((two[0].0 + two[1].0) / 2.0, (two[0].1 + two[1].1) / 2.0);
            self.points = self.points.chunks_exact(2).map(middle).collect();
        }
    }
}

/// What the plans of a step predict.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    pub kernels: u64,
    /// Read and written.
    pub bytes: u64,
    /// In use at most.
    pub peak: u64,
    /// The least time, where the device's speed is known.
    pub seconds: Option<f64>,
}

/// Steps and samples at a moment.
#[derive(Clone, Copy, Debug)]
struct Note {
    at: Instant,
    steps: u64,
    samples: u64,
}

/// Steps and samples a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    pub steps: f64,
    pub samples: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Status {
    pub title: String,
    pub began: Instant,
    /// The last one.
    pub step: Option<StepRecord>,
    pub curves: Vec<Curve>,
    /// What else takes long: the task, what is done of it and all of it.
    pub task: Option<(Task, u64, u64)>,
    pub memory: Option<MemoryStats>,
    pub predicted: Option<Predicted>,
    notes: VecDeque<Note>,
    samples: u64,
}

impl Status {
    pub fn new(title: &str, began: Instant) -> Status {
        Status {
            title: title.into(),
            began,
            step: None,
            curves: Vec::new(),
            task: None,
            memory: None,
            predicted: None,
            notes: VecDeque::new(),
            samples: 0,
        }
    }

    pub fn record(&mut self, record: &Record) {
        for (name, value) in &record.scores.values {
            let known = |curve: &&mut Curve| curve.name == *name && curve.phase == record.phase;
            match self.curves.iter_mut().find(known) {
                Some(curve) => curve.add(record.step, *value),
                None => {
                    let mut curve =
                        Curve { name: name.clone(), phase: record.phase, points: Vec::new(), last: *value };
                    curve.add(record.step, *value);
                    self.curves.push(curve);
                }
            }
        }
    }

    pub fn step(&mut self, step: &StepRecord, at: Instant) {
        self.samples += step.samples;
        (self.step, self.task) = (Some(*step), None);
        let note = Note { at, steps: step.step, samples: self.samples };
        if self.notes.back().is_none_or(|last| at.duration_since(last.at) >= NOTE) {
            self.notes.push_back(note);
        }
        while self.notes.len() > 2 && at.duration_since(self.notes[0].at) > PACE {
            self.notes.pop_front();
        }
    }

    /// The speed of late, once there is one.
    pub fn speed(&self) -> Option<Speed> {
        let (first, last) = (self.notes.front()?, self.notes.back()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let rate = |first: u64, last: u64| (last - first) as f64 / seconds;
        (seconds > 0.0).then(|| Speed {
            steps: rate(first.steps, last.steps),
            samples: rate(first.samples, last.samples),
        })
    }

    /// The time that is left, at the speed of late.
    pub fn left(&self) -> Option<Duration> {
        let (step, speed) = (self.step?, self.speed()?);
        Duration::try_from_secs_f64(step.steps.saturating_sub(step.step) as f64 / speed.steps).ok()
    }

    /// The curves by name: the loss, what is evaluated, what else there is.
    pub fn charts(&self) -> Vec<(&str, Vec<&Curve>)> {
        let mut charts: Vec<(&str, Vec<&Curve>)> = Vec::new();
        for curve in &self.curves {
            match charts.iter_mut().find(|(name, _)| *name == curve.name) {
                Some((_, curves)) => curves.push(curve),
                None => charts.push((&curve.name, vec![curve])),
            }
        }
        let is_evaluated = |curves: &[&Curve]| curves.iter().any(|curve| curve.phase == Phase::Validation);
        charts.sort_by_key(|(name, curves)| (*name != "loss", !is_evaluated(curves), *name == "lr"));
        charts
    }
}
