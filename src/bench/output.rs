//! What a timed closure returns.

use crate::base::Result;
use crate::tensor::Tensor;

/// What a closure under a [`Timer`](crate::bench::Timer) may return: a tensor or several, which are realized;
/// nothing, where the closure realizes by itself; or a `Result` of either.
pub trait Output {
    /// Adds the tensors to realize.
    ///
    /// # Errors
    /// The error that was returned.
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()>;
}

impl Output for () {
    fn tensors(&self, _: &mut Vec<Tensor>) -> Result<()> {
        Ok(())
    }
}

impl Output for Tensor {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        found.push(self.clone());
        Ok(())
    }
}

impl<T: Output> Output for Vec<T> {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        self.iter().try_for_each(|one| one.tensors(found))
    }
}

impl<T: Output, const N: usize> Output for [T; N] {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        self.iter().try_for_each(|one| one.tensors(found))
    }
}

impl<A: Output, B: Output> Output for (A, B) {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        self.0.tensors(found)?;
        self.1.tensors(found)
    }
}

impl<A: Output, B: Output, C: Output> Output for (A, B, C) {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        self.0.tensors(found)?;
        self.1.tensors(found)?;
        self.2.tensors(found)
    }
}

impl<T: Output> Output for Result<T> {
    fn tensors(&self, found: &mut Vec<Tensor>) -> Result<()> {
        match self {
            Ok(output) => output.tensors(found),
            Err(error) => Err(error.clone()),
        }
    }
}
