//! Normalization by neighbouring channels.

use crate::base::DType;
use crate::ir::op::WindowAxis;
use crate::ir::{AluOp, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::options::options;

options! {
    /// Options of [`Tensor::local_response_norm`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::LocalResponseNormOpts;
    /// let opts = LocalResponseNormOpts::default().alpha(1.0).beta(1.0);
    /// assert_eq!(Tensor::ones([1, 1, 1], ()).local_response_norm(1, opts).to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    LocalResponseNormOpts {
        /// Factor of the mean of squares (1e-4).
        alpha: f64 = 1e-4;
        /// Exponent (0.75).
        beta: f64 = 0.75;
        /// Added before the power (1).
        k: f64 = 1.0;
    }
}

impl Tensor {
    /// Normalizes by neighbouring channels of `[n, c, ..]` (Krizhevsky et al. 2012).
    ///
    /// Divides by `(k + alpha * m) ^ beta`, `m` being the mean square over `size` channels. Invalid
    /// below rank 3 or for size 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::LocalResponseNormOpts;
    /// let x = Tensor::ones([1, 3, 1], ());
    /// let opts = LocalResponseNormOpts::default().alpha(1.0).beta(1.0);
    /// assert_eq!(x.local_response_norm(2, opts).dims()?, [1, 3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, opts: LocalResponseNormOpts) -> Tensor {
        let site = CallSite::here("local_response_norm");
        finish(local_response_norm(site, &site.autocast(self), size, opts))
    }
}

fn local_response_norm(
    site: CallSite,
    x: &Tensor,
    size: usize,
    opts: LocalResponseNormOpts,
) -> Checked<Tensor> {
    let fits = x.rank() >= 3 && size > 0;
    site.require(fits, &[x], || {
        (
            "a tensor of rank at least 3 and a size of at least 1".into(),
            format!("rank {}, size {size}", x.rank()),
        )
    })?;
    // PyTorch averages the squares of 64-bit integers as integers, and refuses others.
    let wide = if x.dtype() == DType::I64 { x.clone() } else { site.cast(x, x.dtype().to_float().compute()) };
    let mut pads = vec![PadAxis::default(); x.rank()];
    pads[1] = PadAxis { lo: (size / 2) as i64, hi: ((size - 1) / 2) as i64, interior: 0 };
    let window = WindowAxis { axis: 1, size, stride: 1, dilation: 1 };
    let near = site.window(&site.pad(&site.square(&wide), pads, 0i64), window);
    let mean = site.div(site.sum(&near, &[x.rank()]), size as i64);
    let base = site.add(site.mul(mean, opts.alpha), opts.k);
    let dtype = x.dtype().to_float();
    let y = site.div(site.cast(&wide, base.dtype()), site.binary(AluOp::Pow, base, opts.beta));
    Ok(site.cast(&y, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, f32s, values};

    #[test]
    fn neighbours_divide() {
        let x = f32s(&[1, 3, 1], &[1.0, 2.0, 3.0]);
        let opts = LocalResponseNormOpts::default().alpha(2.0).beta(1.0);
        // Channel c sees itself and the one before.
        assert_close(&x.local_response_norm(2, opts), &[1, 3, 1], &[0.5, 2.0 / 6.0, 3.0 / 14.0]);
    }

    #[test]
    fn integers_give_floats() {
        let x = f32s(&[1, 3, 1], &[1.0, 2.0, 30.0]);
        let opts = || LocalResponseNormOpts::default().alpha(2.0).beta(1.0);
        let y = x.to_dtype(DType::I64).local_response_norm(2, opts());
        assert_eq!(y.dtype(), DType::F32);
        // The means of squares are 1 / 2, 5 / 2 and 904 / 2, whole.
        assert_close(&y, &[1, 3, 1], &[1.0, 2.0 / 5.0, 30.0 / 905.0]);
        for dtype in [DType::U8, DType::I32, DType::F16] {
            let y = x.to_dtype(dtype).local_response_norm(2, opts());
            let wide = x.local_response_norm(2, opts());
            assert_close(&y.to_dtype(DType::F16), &[1, 3, 1], &values(&wide.to_dtype(DType::F16)));
            assert_eq!(y.dtype(), dtype.to_float());
        }
    }
}
