//! Saving random generators.

use crate::base::{Device, Result, Span};
use crate::io::state_dict::{ExpectedTensor, StateDict};
use crate::tensor::Tensor;
use crate::tensor::random::Generator;

impl Generator {
    /// The seed and the number of draws, the bits of each as an `I64`.
    ///
    /// # Errors
    /// Out of memory.
    #[track_caller]
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (name, number) in [("seed", self.seed()), ("draws", self.draws())] {
            state.insert(name, &Tensor::from_vec(vec![number as i64], (), Device::cpu()))?;
        }
        Ok(state)
    }

    /// The generator whose [`Generator::state_dict`] this is.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with everything that does not fit.
    #[track_caller]
    pub fn from_state_dict(state: &StateDict) -> Result<Generator> {
        let targets = ["seed", "draws"].map(|name| ExpectedTensor::number::<i64>(name.into()));
        let state = state.fitted(&targets, "a generator's state", Span::caller())?;
        Ok(Generator::resume(state.number::<i64>("seed")? as u64, state.number::<i64>("draws")? as u64))
    }
}
