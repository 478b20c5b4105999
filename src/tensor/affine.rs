//! Products added to something: scaled sums with products, and affine maps.

use crate::base::{Kind, Scalar};
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::linalg::{bmm, expect_rank, outer, product, ranked_product};
use crate::tensor::options::options;

options! {
    /// The factors of `beta * input + alpha * product`; both 1 unless set.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let (x, a) = (Tensor::ones([2, 2], ()), Tensor::eye(2, 2, ()));
    /// let y = x.addmm(&a, &a, AddmmOpts::default().beta(10).alpha(2));
    /// assert_eq!(y.to_vec::<f32>()?, [12.0, 10.0, 10.0, 12.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    AddmmOpts {
        /// Factor of the input; at 0 the input is ignored, NaN included.
        beta: Scalar = Scalar::Int(1), impl Into<Scalar> => Into::into;
        /// Factor of the product.
        alpha: Scalar = Scalar::Int(1), impl Into<Scalar> => Into::into;
    }
}

impl Tensor {
    /// `beta * self + alpha * (a @ b)`.
    ///
    /// `[n, m]` with `[m, p]`, and `self` that broadcasts to `[n, p]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = Tensor::ones([2], ()).addmm(&a, &a, AddmmOpts::default());
    /// assert_eq!(y.to_vec::<f32>()?, [8.0, 11.0, 16.0, 23.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = CallSite::here("addmm");
        let this: &Tensor = &site.autocast(self);
        let a: &Tensor = &site.autocast(a);
        let b: &Tensor = &site.autocast(b);
        blend(site, this, &ranked_product(site, a, b, 2, 2), opts)
    }

    /// `beta * self + alpha * (matrix @ vector)`.
    ///
    /// `[n, m]` with `[m]`, and `self` that broadcasts to `[n]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let ones = Tensor::ones([2], ());
    /// let y = ones.addmv(&a, &ones, AddmmOpts::default().alpha(10));
    /// assert_eq!(y.to_vec::<f32>()?, [31.0, 71.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addmv(&self, matrix: &Tensor, vector: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = CallSite::here("addmv");
        let this: &Tensor = &site.autocast(self);
        let matrix: &Tensor = &site.autocast(matrix);
        let vector: &Tensor = &site.autocast(vector);
        blend(site, this, &ranked_product(site, matrix, vector, 2, 1), opts)
    }

    /// `beta * self + alpha * (a @ b)` with batches.
    ///
    /// `[b, n, m]` with `[b, m, p]` gives `[b, n, p]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let (a, b) = (Tensor::ones([2, 1, 3], ()), Tensor::ones([2, 3, 1], ()));
    /// let y = Tensor::ones([1], ()).baddbmm(&a, &b, AddmmOpts::default());
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = CallSite::here("baddbmm");
        let this: &Tensor = &site.autocast(self);
        let a: &Tensor = &site.autocast(a);
        let b: &Tensor = &site.autocast(b);
        blend(site, this, &finish(bmm(site, a, b)), opts)
    }

    /// `beta * self + alpha * sum over the batch of (a @ b)`.
    ///
    /// `[b, n, m]` with `[b, m, p]` gives `[n, p]`. One contraction over both the batch and the
    /// inner axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let (a, b) = (Tensor::ones([2, 1, 3], ()), Tensor::ones([2, 3, 1], ()));
    /// assert_eq!(Tensor::ones([1], ()).addbmm(&a, &b, AddmmOpts::default()).to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = CallSite::here("addbmm");
        let this: &Tensor = &site.autocast(self);
        let a: &Tensor = &site.autocast(a);
        let b: &Tensor = &site.autocast(b);
        let product = || {
            expect_rank(site, a, 3)?;
            expect_rank(site, b, 3)?;
            Ok(site.contract(a, b, &[], &[(0, 0), (2, 1)]))
        };
        blend(site, this, &finish(product()), opts)
    }

    /// `beta * self + alpha * outer(a, b)`.
    ///
    /// `[n]` with `[m]` gives `[n, m]`; on truth values, or and and.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::AddmmOpts;
    /// let a = Tensor::from([1i64, 2]);
    /// let y = Tensor::from([[100i64]]).addr(&a, &a, AddmmOpts::default());
    /// assert_eq!(y.to_vec::<i64>()?, [101, 102, 102, 104]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addr(&self, a: &Tensor, b: &Tensor, opts: AddmmOpts) -> Tensor {
        let site = CallSite::here("addr");
        let this: &Tensor = &site.autocast(self);
        let a: &Tensor = &site.autocast(a);
        let b: &Tensor = &site.autocast(b);
        blend(site, this, &finish(outer(site, a, b)), opts)
    }

    /// `self @ weight.T + bias`.
    ///
    /// `[.., in]` with `weight` `[out, in]` (or `[in]`) and `bias` `[out]` gives `[.., out]`.
    /// Invalid when ranks or extents do not fit. PyTorch: `nn.functional.linear`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0]]);
    /// let weight = Tensor::from([[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0]]);
    /// assert_eq!(x.linear(&weight, None).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let site = CallSite::here("linear");
        let (x, weight) = (&site.autocast(self), &site.autocast(weight));
        finish(linear(site, x, weight, bias.map(|bias| site.autocast(bias)).as_deref()))
    }

    /// A bilinear map along the last axes.
    ///
    /// `y[o] = sum over i, j of self[i] * weight[o, i, j] * other[j] + bias[o]`: `[.., i]` and
    /// `[.., j]` with `weight` `[o, i, j]` give `[.., o]`. Invalid when extents do not fit.
    /// PyTorch: `nn.functional.bilinear`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::ones([5, 2], ()), Tensor::ones([5, 3], ()));
    /// assert_eq!(x.bilinear(&y, &Tensor::ones([4, 2, 3], ()), None).dims()?, [5, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let site = CallSite::here("bilinear");
        finish(bilinear(site, self, other, weight, bias))
    }
}

/// `beta * input + alpha * product`. The factors take the product's type, as
/// PyTorch's do, so that 0.5 is 0 for integers.
fn blend(site: CallSite, input: &Tensor, scaled: &Tensor, opts: AddmmOpts) -> Tensor {
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

fn linear(site: CallSite, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Checked<Tensor> {
    site.valid(&[x, weight])?;
    let last = x.rank().checked_sub(1);
    let fits = (1..=2).contains(&weight.rank());
    let (Some(last), true) = (last, fits) else {
        let found = format!("ranks {} and {}", x.rank(), weight.rank());
        return Err(site.invalid(
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

fn bilinear(
    site: CallSite,
    a: &Tensor,
    b: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Checked<Tensor> {
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
