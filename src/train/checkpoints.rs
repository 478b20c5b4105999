//! Where and when a training is saved.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::{Device, Error, Result, Span};
use crate::data::Batch;
use crate::io::StateDict;
use crate::ir::collective::Reduce;
use crate::nn::{Module, ModuleExt};
use crate::tensor::Tensor;
use crate::train::metric::Scores;
use crate::train::opts::Every;
use crate::train::trainer::Trainer;

/// Saves a training's state in a folder, as `step-00001200.safetensors`, now and then and when it ends. Each
/// file is written whole or not at all. Of several ranks rank 0 writes, and all read. Of a model that ranks divide,
/// each part is a file, as `step-00001200-part-0-of-2.safetensors`.
///
/// PyTorch: `ModelCheckpoint` of Lightning.
///
/// # Examples
/// ```
/// use kiln::train::{Checkpoints, Every};
/// let checkpoints = Checkpoints::new("runs/first").every(Every::Steps(500)).keep(3).best("accuracy");
/// assert_eq!(checkpoints.latest()?, None);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    every: Every,
    keep: usize,
    pub(super) best: Option<String>,
    pub(super) best_value: Option<f64>,
}

const ENDING: &str = ".safetensors";

impl Checkpoints {
    /// In a folder, which is made if need be: after every epoch, of which the last is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Checkpoints {
        let folder = folder.into();
        Checkpoints { folder, every: Every::Epochs(1), keep: 1, best: None, best_value: None }
    }
    /// How often.
    #[must_use]
    pub fn every(mut self, every: Every) -> Checkpoints {
        self.every = every;
        self
    }
    /// How many are kept, the newest; at least 1.
    #[must_use]
    pub fn keep(mut self, count: usize) -> Checkpoints {
        self.keep = count.max(1);
        self
    }
    /// Also keeps the model that is best by a metric, or by `loss`, as `best.safetensors`.
    #[must_use]
    pub fn best(mut self, metric: impl Into<String>) -> Checkpoints {
        self.best = Some(metric.into());
        self
    }

    /// The newest file of a whole model, and its step.
    ///
    /// # Errors
    /// A folder that cannot be read.
    #[track_caller]
    pub fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        self.latest_of("", Span::caller())
    }

    /// The newest file of a part, by what its name ends with.
    fn latest_of(&self, part: &str, span: Span) -> Result<Option<(u64, PathBuf)>> {
        let all = self.all(part).map_err(|error| self.failed(&error, span))?;
        Ok(all.into_iter().next_back())
    }

    /// The files of a part, by step.
    fn all(&self, part: &str) -> std::io::Result<Vec<(u64, PathBuf)>> {
        let names = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let mut found = Vec::new();
        for entry in names {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let step =
                name.strip_prefix("step-").and_then(|name| name.strip_suffix(ENDING)?.strip_suffix(part));
            if let Some(step) = step.and_then(|step| step.parse().ok()) {
                found.push((step, path));
            }
        }
        found.sort();
        Ok(found)
    }

    fn path(&self, step: u64, part: &str) -> PathBuf {
        self.folder.join(format!("step-{step:08}{part}{ENDING}"))
    }

    fn write(&self, state: &StateDict, path: &Path, span: Span) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|error| self.failed(&error, span))?;
        state.save(path)
    }

    /// Removes all but the newest of a part.
    fn prune(&self, part: &str) {
        let all = self.all(part).unwrap_or_default();
        let old = all.len().saturating_sub(self.keep);
        all.into_iter().take(old).for_each(|(_, path)| drop(fs::remove_file(path)));
    }

    fn failed(&self, error: &std::io::Error, span: Span) -> Error {
        Error::File { path: self.folder.display().to_string(), message: error.to_string(), span }
    }
}

impl<M: Module, B: Batch> Trainer<'_, M, B> {
    /// Goes on from the newest checkpoint, if there is one: whether there is. Of several ranks, rank 0 says
    /// which; all of them read it.
    ///
    /// # Errors
    /// A trainer without [`Trainer::checkpoints`]; a file that cannot be read; what
    /// [`Trainer::load_state_dict`] says.
    #[track_caller]
    pub fn resume(&mut self) -> Result<bool> {
        let span = Span::caller();
        let _line = span.enter();
        let Some(checkpoints) = &self.checkpoints else {
            let expected = "a trainer with checkpoints(..)".into();
            return Err(Error::Argument { call: "resume", expected, found: "one without".into(), span });
        };
        let sharers = self.sharers();
        let own = checkpoints.latest_of(&sharers.suffix(), span)?.map_or(-1, |(step, _)| step as i64);
        let step = Tensor::from_vec(vec![own], (), Device::cpu());
        let step = self.model.group().map_or_else(|| step.clone(), |group| group.broadcast(&step, 0));
        // One that all parts have.
        let step = sharers.all_reduce(Reduce::Min, step.item()?)?;
        let Ok(step) = u64::try_from(step) else { return Ok(false) };
        let state = StateDict::open(checkpoints.path(step, &sharers.suffix()))?;
        self.load_state_dict(&state)?;
        Ok(true)
    }

    /// The metric of which the best model is kept.
    pub(super) fn best_metric(&self) -> Option<&str> {
        self.checkpoints.as_ref()?.best.as_deref()
    }

    pub(super) fn save_after_step(&mut self) -> Result<()> {
        let step = self.position.step;
        self.save_if(|checkpoints| checkpoints.every.is_after_step(step))
    }

    pub(super) fn save_after_epoch(&mut self) -> Result<()> {
        let epoch = self.position.epoch;
        self.save_if(|checkpoints| checkpoints.every.is_after_epoch(epoch))
    }

    pub(super) fn save_at_end(&mut self) -> Result<()> {
        self.save_if(|_| true)
    }

    fn save_if(&mut self, is_due: impl FnOnce(&Checkpoints) -> bool) -> Result<()> {
        let step = self.position.step;
        if !self.checkpoints.as_ref().is_some_and(is_due) {
            return Ok(());
        }
        let (state, sharers) = (self.state_dict()?, self.sharers());
        let writing = self.checkpoints.as_ref().filter(|_| self.model.rank() == 0);
        if let Some(checkpoints) = writing {
            checkpoints.write(&state, &checkpoints.path(step, &sharers.suffix()), Span::caller())?;
        }
        // Nobody goes on before it is on the disk, nor removes what others may need for want of it.
        self.model.group().map_or(Ok(()), |group| group.barrier())?;
        sharers.all_reduce(Reduce::Max, 0)?;
        if let Some(checkpoints) = writing {
            checkpoints.prune(&sharers.suffix());
        }
        Ok(())
    }

    /// Keeps the model if it is better than any before.
    pub(super) fn save_best(&mut self, scores: &Scores) -> Result<()> {
        let Some(name) = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.best.clone()) else {
            return Ok(());
        };
        let (goal, value) = (self.goal(&name), scores.get(&name));
        let (rank, state, part) = (self.model.rank(), self.model().state_dict()?, self.sharers().suffix());
        let (Some(goal), Some(value), Some(checkpoints)) = (goal, value, &mut self.checkpoints) else {
            return Ok(());
        };
        if goal.is_better(value, checkpoints.best_value.unwrap_or(goal.worst()), 0.0) {
            checkpoints.best_value = Some(value);
            if rank == 0 {
                let path = checkpoints.folder.join(format!("best{part}{ENDING}"));
                checkpoints.write(&state, &path, Span::caller())?;
            }
        }
        Ok(())
    }
}
