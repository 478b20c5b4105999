//! The state of a training, to stop and to resume: model, optimizer, schedule, random numbers, the place in
//! the data, and what has been measured.

use crate::base::{Device, Element, Error, Result, Span};
use crate::data::Batch;
use crate::io::StateDict;
use crate::nn::{Module, ModuleExt};
use crate::tensor::Tensor;
use crate::tensor::random::{Generator, set_generator};
use crate::train::trainer::Trainer;

fn number<T: Element>(number: T) -> Tensor {
    Tensor::from_vec(vec![number], (), Device::cpu())
}

/// A number of a state, if it is there.
fn read<T: Element>(state: &StateDict, name: &str) -> Result<Option<T>> {
    state.get(name).map(Tensor::item::<T>).transpose()
}

impl<M: Module, B: Batch> Trainer<'_, M, B> {
    /// All that a resumed training goes on from, bit by bit: `model`, `optimizer`, `scaler`, `schedule`,
    /// `plateau`, `trainer`, and the random numbers of all ranks. Ranks call it together.
    ///
    /// # Errors
    /// The error recorded in a tensor; [`Error::Collective`].
    #[track_caller]
    pub fn state_dict(&self) -> Result<StateDict> {
        let _line = Span::caller().enter();
        self.model.settle()?;
        let mut state = StateDict::new();
        state.extend("model", self.model().state_dict()?)?;
        state.extend("optimizer", self.optimizer.state_dict()?)?;
        state.extend("scaler", self.scaler.state_dict()?)?;
        if let Some(scheduler) = &self.scheduler {
            state.extend("schedule", scheduler.state_dict()?)?;
        }
        if let Some(plateau) = &self.plateau {
            state.extend("plateau", plateau.state_dict()?)?;
        }
        state.extend("trainer", self.own_state()?)?;
        let generator = crate::generator();
        let own = vec![generator.seed() as i64, generator.draws() as i64];
        let own = Tensor::from_vec(own, [1, 2], Device::cpu());
        let all = self.model.group().map_or_else(|| own.clone(), |group| group.all_gather(&own, 0));
        // On all ranks, also those that write nothing.
        state.insert("generators", all.realize()?)?;
        Ok(state)
    }

    fn own_state(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        let (position, window) = (&self.position, &self.window);
        let counts = [
            ("epoch", position.epoch),
            ("batch", position.batch),
            ("step", position.step),
            ("ranks", self.model.ranks() as u64),
            ("window.count", window.count),
            ("window.epoch_count", window.epoch_count),
        ];
        for (name, count) in counts {
            state.insert(name, &number(count as i64))?;
        }
        state.insert("seconds", &number(position.seconds()))?;
        state.insert("window.epoch_sum", &number(window.epoch_sum))?;
        if let Some(sum) = &window.sum {
            state.insert("window.sum", sum)?;
        }
        // Of a step after which nobody has read yet.
        if let Some(norm) = &self.grad_norm {
            state.insert("window.grad_norm", norm)?;
        }
        if let Some(stop) = &self.early_stop {
            state.insert("early_stop.bad", &number(stop.bad as i64))?;
            if let Some(best) = stop.best {
                state.insert("early_stop.best", &number(best))?;
            }
        }
        #[cfg(feature = "safetensors")]
        if let Some(best) = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.best_value) {
            state.insert("best", &number(best))?;
        }
        Ok(state)
    }

    /// Goes on from a saved state, on the devices where the model is. The state may be of a training on
    /// another number of ranks: then an epoch goes on at the same sample, or just before it, and ranks that
    /// were not there draw random numbers of their own. Ranks call it together.
    ///
    /// # Errors
    /// [`Error::State`] with everything that does not fit. The training is then as it was.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let span = Span::caller();
        let _line = span.enter();
        let before = self.state_dict()?;
        let loaded = self.take(state, span);
        if loaded.is_err() {
            self.take(&before, span)?;
        }
        loaded
    }

    /// Goes on from a state, of which some parts may be taken where others do not fit.
    fn take(&mut self, state: &StateDict, span: Span) -> Result<()> {
        let missing = |name: &str| Error::Argument {
            call: "load_state_dict",
            expected: format!("a training's state, with {name}"),
            found: "a state without".into(),
            span,
        };
        let generators = state.get("generators").ok_or_else(|| missing("generators"))?;
        let generators = generators.to_vec::<i64>()?;
        let own = state.part("trainer");
        let count = |name: &str| -> Result<u64> {
            read::<i64>(&own, name)?
                .map(|count| count as u64)
                .ok_or_else(|| missing(&format!("trainer.{name}")))
        };
        let (epoch, batch, step, ranks) = (count("epoch")?, count("batch")?, count("step")?, count("ranks")?);
        let device = self.params.first().map_or(Device::cpu(), crate::nn::Param::device);
        self.model().load_state_dict(&state.part("model"), device)?;
        self.optimizer.load_state_dict(&state.part("optimizer"))?;
        self.scaler.load_state_dict(&state.part("scaler"))?;
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.load_state_dict(&state.part("schedule"))?;
        }
        if let Some(plateau) = &mut self.plateau {
            plateau.load_state_dict(&state.part("plateau"))?;
        }
        self.position.seconds = read(&own, "seconds")?.unwrap_or(0.0);
        (self.position.epoch, self.position.step) = (epoch, step);
        self.position.batch = batch * ranks / self.model.ranks() as u64;
        self.load_measured(&own)?;
        let same_ranks = ranks == self.model.ranks() as u64;
        set_generator(generator_of(&generators, self.model.rank(), same_ranks));
        Ok(())
    }

    fn load_measured(&mut self, own: &StateDict) -> Result<()> {
        let device = self.device();
        let count = |name: &str| read::<i64>(own, name).map(|count| count.unwrap_or(0) as u64);
        self.window.sum = own.get("window.sum").map(|sum| sum.to(device));
        self.grad_norm = own.get("window.grad_norm").map(|norm| norm.to(device));
        self.window.count = count("window.count")?;
        self.window.epoch_count = count("window.epoch_count")?;
        self.window.epoch_sum = read(own, "window.epoch_sum")?.unwrap_or(0.0);
        if let Some(stop) = &mut self.early_stop {
            (stop.best, stop.bad) = (read(own, "early_stop.best")?, count("early_stop.bad")?);
        }
        #[cfg(feature = "safetensors")]
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.best_value = read(own, "best")?;
        }
        Ok(())
    }
}

/// The random numbers that a rank goes on with; of a rank that there was not, what follows from rank 0's.
fn generator_of(saved: &[i64], rank: usize, same_ranks: bool) -> Generator {
    match (saved.get(2 * rank..2 * rank + 2), saved) {
        (Some(&[seed, draws]), _) if same_ranks => Generator::resume(seed as u64, draws as u64),
        (_, &[seed, draws, ..]) => Generator::resume(seed as u64, draws as u64 + rank as u64).split(),
        (_, _) => Generator::new(rank as u64),
    }
}
