//! Products added to something: scaled sums with products, and affine maps.

use crate::base::{Kind, Scalar};
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::compose::{Checked, Site, finish};
use crate::tensor::linalg::{bmm, expect_rank, outer, product, ranked_product};
use crate::tensor::options::options;

options! {
    /// The factors of `beta * input + alpha * product`; both 1 unless set.
    AddmmOpts {
        /// Factor of the input; at 0 the input is ignored, NaN included.
        beta: Scalar = Scalar::Int(1), impl Into<Scalar> => Into::into;
        /// Factor of the product.
        alpha: Scalar = Scalar::Int(1), impl Into<Scalar> => Into::into;
    }
}

impl Tensor {
    /// `beta * self + alpha * (a @ b)` with matrices.
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = Site::here("addmm");
        blend(site, self, &ranked_product(site, a, b, 2, 2), opts)
    }

    /// `beta * self + alpha * (matrix @ vector)`.
    #[track_caller]
    pub fn addmv(&self, matrix: &Tensor, vector: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = Site::here("addmv");
        blend(site, self, &ranked_product(site, matrix, vector, 2, 1), opts)
    }

    /// `beta * self + alpha * (a @ b)` with batches of matrices.
    #[track_caller]
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = Site::here("baddbmm");
        blend(site, self, &finish(bmm(site, a, b)), opts)
    }

    /// `beta * self + alpha * sum over the batch of (a @ b)`: one contraction
    /// over both the batch and the inner axis.
    #[track_caller]
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = Site::here("addbmm");
        let product = || {
            expect_rank(site, a, 3)?;
            expect_rank(site, b, 3)?;
            Ok(site.contract(a, b, &[], &[(0, 0), (2, 1)]))
        };
        blend(site, self, &finish(product()), opts)
    }

    /// `beta * self + alpha * outer(a, b)`; on truth values, or and and.
    #[track_caller]
    pub fn addr(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = Site::here("addr");
        blend(site, self, &finish(outer(site, a, b)), opts)
    }

    /// `self @ weight.T + bias`: `weight` is `[out, in]` or `[in]`, `bias` `[out]`.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let site = Site::here("linear");
        finish(linear(site, self, weight, bias))
    }

    /// `y[o] = sum over i, j of self[i] * weight[o, i, j] * other[j] + bias[o]`
    /// along the last axes.
    #[track_caller]
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let site = Site::here("bilinear");
        finish(bilinear(site, self, other, weight, bias))
    }
}

/// `beta * input + alpha * product`. The factors take the product's type, as
/// PyTorch's do, so that 0.5 is 0 for integers.
fn blend(site: Site, input: &Tensor, scaled: &Tensor, opts: AddmmOpts) -> Tensor {
    let fits = input.shape().broadcast(&scaled.shape()) == Some(scaled.shape());
    let checked = site.require(fits, &[input, scaled], || {
        (format!("an input that broadcasts to {}", scaled.shape()), input.shape().to_string())
    });
    if let Err(invalid) = checked {
        return invalid;
    }
    let dtype = scaled.dtype();
    let is = |factor: Scalar, value: f64| factor.cast(dtype).as_f64() == value;
    let times = |x: &Tensor, factor: Scalar| {
        if is(factor, 1.0) { x.clone() } else { product(site, factor.cast(dtype), x) }
    };
    let scaled = times(scaled, opts.alpha);
    if is(opts.beta, 0.0) {
        return scaled;
    }
    let sum = if dtype.kind() == Kind::Bool && input.dtype() == dtype { AluOp::Or } else { AluOp::Add };
    site.binary(sum, times(input, opts.beta), scaled)
}

fn linear(site: Site, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Checked<Tensor> {
    site.valid(&[x, weight])?;
    let last = x.rank().checked_sub(1);
    let fits = (1..=2).contains(&weight.rank());
    let (Some(last), true) = (last, fits) else {
        let found = format!("ranks {} and {}", x.rank(), weight.rank());
        return Err(site.mistake(
            "an input of rank 1 and more and a weight of rank 1 or 2",
            found,
            &[x, weight],
        ));
    };
    let y = site.contract(x, weight, &[], &[(last, weight.rank() - 1)]);
    Ok(match bias {
        Some(bias) => site.add(y, bias),
        None => y,
    })
}

fn bilinear(site: Site, a: &Tensor, b: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Checked<Tensor> {
    expect_rank(site, weight, 3)?;
    let agree =
        a.rank() >= 1 && a.rank() == b.rank() && a.shape()[..a.rank() - 1] == b.shape()[..a.rank() - 1];
    site.require(agree, &[a, b, weight], || {
        ("inputs that agree on all axes but the last".into(), format!("{} and {}", a.shape(), b.shape()))
    })?;
    let lead = a.rank() - 1;
    // [.., i] with [o, i, j] gives [.., o, j]; its product with [.., j] sums j.
    let half = site.contract(a, weight, &[], &[(lead, 1)]);
    let batch: Vec<(usize, usize)> = (0..lead).map(|i| (i, i)).collect();
    let y = site.contract(&half, b, &batch, &[(lead + 1, lead)]);
    Ok(match bias {
        Some(bias) => site.add(y, bias),
        None => y,
    })
}
