//! Numbers as waves, which networks are told times by.

use kiln::prelude::DType;
use kiln::tensor::Tensor;

/// How numbers become waves of many lengths (Ho et al. 2020).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waves {
    /// Cosines before sines.
    pub flipped: bool,
    /// Fewer of the half of waves that their lengths are divided among.
    pub shift: f64,
}

impl Waves {
    /// Numbers `[n]` as waves, `[n, count]`.
    #[track_caller]
    pub(crate) fn of(self, numbers: &Tensor, count: usize) -> Tensor {
        let half = count / 2;
        let places = Tensor::arange(0, half as i64, 1, (numbers.device(), DType::F32));
        let lengths = (places * (-(1e4f64.ln()) / (half as f64 - self.shift))).exp();
        let angles = numbers.float().unsqueeze(1) * lengths;
        let (sines, cosines) = (angles.sin(), angles.cos());
        let both = if self.flipped { [&cosines, &sines] } else { [&sines, &cosines] };
        Tensor::cat(&both, 1)
    }
}
