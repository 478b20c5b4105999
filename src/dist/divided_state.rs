//! Optimizers whose state ranks divide.

use crate::dist::group::Group;
use crate::optim::{OptimizerCore, Rule};

impl<R: Rule> OptimizerCore<R> {
    /// Divides what the rule remembers among the ranks of a group: each remembers it for some of the parameters,
    /// makes their steps, and gives the new values to the others, in the plan of the step. Adam's state, twice as
    /// large as the parameters, takes a part of the memory on each rank.
    ///
    /// Gradients must be the same on all ranks, as [`Ddp`](crate::dist::Ddp) leaves them. All ranks step together,
    /// and call [`state_dict`](crate::optim::Optimizer::state_dict) together, which is whole on each: any number of
    /// ranks resumes from it. What is divided once stays so.
    ///
    /// PyTorch: `ZeroRedundancyOptimizer`; Rajbhandari et al., "ZeRO", 2020, stage 1, by whole parameters.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist::{self, Ddp};
    /// use kiln::nn::{Layer, Linear, ModuleExt};
    /// use kiln::optim::{Adam, AdamOpts, Optimizer};
    /// use kiln::prelude::*;
    /// let weights = dist::spawn(2, |group| {
    ///     let model = Ddp::new(Linear::new(3, 2, ()), &group, ())?;
    ///     let mut optimizer = Adam::new(model.parameters(), AdamOpts::default()).divided_among(&group);
    ///     for _ in 0..3 {
    ///         optimizer.zero_grad();
    ///         model.forward(&Tensor::ones([4, 3], ())).square().mean(..).backward()?;
    ///         optimizer.step()?;
    ///     }
    ///     model.module().weight.get().to_vec::<f32>()
    /// })?;
    /// assert_eq!(weights[0], weights[1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn divided_among(self, group: &Group) -> OptimizerCore<R> {
        self.divided(group.channel())
    }
}
