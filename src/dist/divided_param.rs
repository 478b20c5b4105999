//! Parameters of which each rank has a part.

use crate::dist::group::Group;
use crate::nn::Param;

impl Param {
    /// Says that this is the rank's part of a parameter that the ranks of a group divide; the first group counts, and
    /// it counts for all clones. Layers such as [`ColumnParallel`](crate::dist::ColumnParallel) say so of their own.
    ///
    /// What looks at all gradients then sees those of the whole parameter:
    /// [`clip_grad_norm`](crate::optim::clip_grad_norm) adds up the squares of all parts, and a
    /// [`GradScaler`](crate::optim::GradScaler) skips a step on all of these ranks or on none. Both meet the other
    /// ranks in the plan of the step.
    ///
    /// PyTorch: a parameter that is a `DTensor` with the placement `Shard`.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::nn::Param;
    /// use kiln::optim::clip_grad_norm;
    /// use kiln::prelude::*;
    /// let norms = dist::spawn(2, |group| {
    ///     // The gradient is [3, 4], of which each rank has an element.
    ///     let own = Param::new(Tensor::zeros([1], ())).divided_among(&group);
    ///     own.set_grad(Some(&Tensor::full([1], 3.0 + group.rank() as f32, ())))?;
    ///     clip_grad_norm(&[own], 1.0)?.item::<f32>()
    /// })?;
    /// assert_eq!(norms, [5.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn divided_among(self, group: &Group) -> Param {
        if group.size() > 1 {
            self.cell().divide_among(group.channel());
        }
        self
    }
}
