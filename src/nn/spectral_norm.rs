//! Weights of bounded gain.

use crate::base::{Result, Span};
use crate::module;
use crate::nn::param::{Buffer, Param, Training};
use crate::tensor::Tensor;

/// Steps of power iteration before the first use, as in PyTorch.
const FIRST_STEPS: usize = 15;

/// A weight divided by its largest singular value, so that what multiplies by it lengthens no vector
/// (Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018).
///
/// The singular value is that of the weight as a matrix, its axes after the first flattened. Power iteration
/// estimates it: the vectors `u` and `v` are kept, and each training pass goes on from them. PyTorch:
/// `nn.utils.parametrizations.spectral_norm`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::SpectralNorm;
/// let norm = SpectralNorm::new(Tensor::from([[4.0f32, 0.0], [0.0, 2.0]]));
/// let weight = norm.weight_normalized().to_vec::<f32>()?;
/// assert!(weight.iter().zip([1.0, 0.0, 0.0, 0.5]).all(|(found, expected)| (found - expected).abs() < 1e-3));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct SpectralNorm {
    /// The weight before it is divided, `[n, ..]`.
    pub weight: Param,
    /// The estimate of the left singular vector, `[n]`.
    pub u: Buffer,
    /// The estimate of the right singular vector, of as many elements as a row has.
    pub v: Buffer,
    training: Training,
    steps: usize,
    eps: f64,
}
module!(SpectralNorm { weight, u, v, training; skip steps, eps });

impl SpectralNorm {
    /// Of a weight of rank 2 at least, with one [step](Self::steps) a pass; vectors are divided by their
    /// length, taken as at least 1e-12.
    #[track_caller]
    pub fn new(weight: Tensor) -> SpectralNorm {
        let _line = Span::caller().enter();
        let (rows, eps) = (matrix(&weight).detach(), 1e-12);
        let u = Tensor::build(|| Ok(Tensor::randn([rows.dim(0)?], (rows.device(), rows.dtype()))));
        let (u, v) = iterated(&rows, u.normalize(2.0, 0, eps), FIRST_STEPS, eps);
        let (weight, training) = (Param::new(weight), Training::default());
        SpectralNorm { weight, u: Buffer::new(u), v: Buffer::new(v), training, steps: 1, eps }
    }

    /// Takes so many steps of power iteration in a training pass.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::SpectralNorm;
    /// let norm = SpectralNorm::new(Tensor::from([[3.0f32, 0.0], [0.0, 1.0]])).steps(3);
    /// assert_eq!(norm.weight_normalized().dims()?, [2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn steps(self, steps: usize) -> SpectralNorm {
        SpectralNorm { steps, ..self }
    }

    /// The weight over its largest singular value, to be used once in a pass. Gradients take `u` and `v` for
    /// constants.
    #[track_caller]
    pub fn weight_normalized(&self) -> Tensor {
        let _line = Span::caller().enter();
        Tensor::build(|| {
            let weight = self.weight.get();
            let rows = matrix(&weight);
            if self.training.is_on() {
                self.advance(&rows.detach())?;
            }
            let largest = self.u.get().dot(&rows.mv(&self.v.get()));
            Ok(weight / largest)
        })
    }

    fn advance(&self, rows: &Tensor) -> Result<()> {
        let (u, v) = iterated(rows, self.u.get(), self.steps, self.eps);
        self.u.set(&u)?;
        self.v.set(&v)
    }
}

/// The weight, its axes after the first flattened.
fn matrix(weight: &Tensor) -> Tensor {
    weight.flatten(1, -1)
}

/// Both singular vectors after so many steps from `u`.
fn iterated(rows: &Tensor, mut u: Tensor, steps: usize, eps: f64) -> (Tensor, Tensor) {
    let columns = rows.mt();
    let unit = |x: Tensor| x.normalize(2.0, 0, eps);
    let mut v = unit(columns.mv(&u));
    for _ in 0..steps {
        u = unit(rows.mv(&v));
        v = unit(columns.mv(&u));
    }
    (u, v)
}
