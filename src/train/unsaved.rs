//! A build that cannot write files of the safetensors format: nothing is saved.

use crate::base::Result;
use crate::train::metric::Scores;
use crate::train::trainer::Trainer;

impl<M, B> Trainer<'_, M, B> {
    pub(super) fn best_metric(&self) -> Option<&str> {
        None
    }
    pub(super) fn save_after_step(&mut self) -> Result<()> {
        Ok(())
    }
    pub(super) fn save_after_epoch(&mut self) -> Result<()> {
        Ok(())
    }
    pub(super) fn save_at_end(&mut self) -> Result<()> {
        Ok(())
    }
    pub(super) fn save_best(&mut self, _scores: &Scores) -> Result<()> {
        Ok(())
    }
}
