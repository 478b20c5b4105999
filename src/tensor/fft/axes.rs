//! Transforms along several axes, one after another.

use crate::base::Result;
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::fft::real::{half_along, whole_along};
use crate::tensor::fft::rows::Rows;
use crate::tensor::fft::{Direction, FftNorm, FftOpts, built, scaled_along};
use crate::tensor::options::options;

options! {
    /// The options of transforms along several axes.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::FftnOpts;
    /// let x = Tensor::ones([3, 4, 5], ());
    /// assert_eq!(x.fftn(FftnOpts::default().axes([0, 1])).shape()[..], [3, 4, 5]);
    /// assert_eq!(x.fftn(FftnOpts::default().sizes([8, 8])).shape()[..], [3, 8, 8]);
    /// ```
    FftnOpts {
        /// Points along each of the axes, PyTorch's `s`; without axes, along the last ones (their extents).
        sizes: Option<Vec<usize>> = None, impl Into<Vec<usize>> => |sizes| Some(Into::into(sizes));
        /// The axes, PyTorch's `dim`: all, or the last two of a transform in two dimensions.
        axes: Option<AxisList> = None, impl IntoAxes => |axes| Some(IntoAxes::into_axes(axes));
        /// Which direction divides (`Backward`).
        norm: FftNorm = FftNorm::Backward;
    }
}

/// An axis to transform, and its points if they are not its extent.
type Pass = (i64, Option<usize>);

/// What a transform of several axes is of.
#[derive(Clone, Copy)]
struct Call<'a> {
    site: CallSite,
    opts: &'a FftnOpts,
    direction: Direction,
}

impl Call<'_> {
    /// The axes in order, with their points.
    fn passes(self, x: &Tensor) -> Result<Vec<Pass>> {
        let FftnOpts { sizes, axes, .. } = self.opts;
        let axes: Vec<i64> = match (axes, sizes) {
            (Some(AxisList::These(axes)), _) => axes.to_vec(),
            (None, Some(sizes)) => (-(sizes.len() as i64)..0).collect(),
            (Some(AxisList::All) | None, _) => (0..x.rank() as i64).collect(),
        };
        let mut known = Vec::new();
        for &axis in &axes {
            let number = self.site.axis_number(x, axis)?;
            if known.contains(&number) {
                return Err(self.site.error("distinct axes", format!("axis {axis} twice"), &[x]));
            }
            known.push(number);
        }
        match sizes {
            Some(sizes) if sizes.len() != axes.len() => {
                let expected = format!("a size for each of {} axes", axes.len());
                Err(self.site.error(expected, format!("{} sizes", sizes.len()), &[x]))
            }
            Some(sizes) => Ok(axes.into_iter().zip(sizes.iter().map(|&size| Some(size))).collect()),
            None => Ok(axes.into_iter().map(|axis| (axis, None)).collect()),
        }
    }

    /// The axes of a transform between real numbers and half a spectrum: the last one, and those before it.
    fn real_passes(self, x: &Tensor) -> Result<(Pass, Vec<Pass>)> {
        let mut passes = self.passes(x)?;
        match passes.pop() {
            Some(last) => Ok((last, passes)),
            None => Err(self.site.error("at least one axis", "none", &[x])),
        }
    }

    /// Complex transforms along these axes, from the last to the first.
    fn along(self, re: &Tensor, im: Option<&Tensor>, passes: &[Pass]) -> Result<Complex> {
        let mut z = (re.clone(), im.cloned());
        for &(axis, n) in passes.iter().rev() {
            let rows = Rows::of(self.site, &z.0, axis, n)?;
            let scale = self.opts.norm.scale(self.direction, rows.n);
            let next = scaled_along(self.site, &rows, &z.0, z.1.as_ref(), self.direction, scale)?;
            z = (next.re, Some(next.im));
        }
        let im = z.1.unwrap_or_else(|| self.site.zeros_like(&z.0));
        Ok(Complex { re: z.0, im })
    }

    fn one(self, (axis, n): Pass) -> FftOpts {
        FftOpts { n, axis, norm: self.opts.norm }
    }

    fn complex(self, re: &Tensor, im: Option<&Tensor>) -> Complex {
        built(self.site, re, im, |re, im| self.along(re, im, &self.passes(re)?))
    }

    fn half(self, x: &Tensor) -> Complex {
        built(self.site, x, None, |x, _| {
            let (last, rest) = self.real_passes(x)?;
            let z = half_along(self.site, x, &self.one(last), self.direction)?;
            self.along(&z.re, Some(&z.im), &rest)
        })
    }

    fn whole(self, re: &Tensor, im: Option<&Tensor>) -> Tensor {
        let real = built(self.site, re, im, |re, im| {
            let (last, rest) = self.real_passes(re)?;
            let z = self.along(re, im, &rest)?;
            let re = whole_along(self.site, &z.re, Some(&z.im), &self.one(last), self.direction)?;
            Ok(Complex { im: re.clone(), re })
        });
        real.re
    }
}

/// Options for the last two axes, unless others are named.
fn plane(mut opts: FftnOpts) -> FftnOpts {
    opts.axes.get_or_insert_with(|| [-2i64, -1].into_axes());
    opts
}

/// Methods from these operands, along all axes and along the last two.
macro_rules! transforms {
    ($(
        $of:ident: $(#[doc = $doc:literal])+
        $name:ident $method:ident $direction:ident $result:ty, $opts:expr;
    )*) => {$(
        impl $of {
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, opts: FftnOpts) -> $result {
                let site = CallSite::here(stringify!($name));
                let opts = $opts(opts);
                self.call(Call { site, opts: &opts, direction: Direction::$direction }).$method()
            }
        }
    )*};
}

/// A call on its operand.
struct Of<'a> {
    call: Call<'a>,
    re: &'a Tensor,
    im: Option<&'a Tensor>,
}

impl Of<'_> {
    fn complex(self) -> Complex {
        self.call.complex(self.re, self.im)
    }
    fn half(self) -> Complex {
        self.call.half(self.re)
    }
    fn whole(self) -> Tensor {
        self.call.whole(self.re, self.im)
    }
}

impl Tensor {
    fn call<'a>(&'a self, call: Call<'a>) -> Of<'a> {
        Of { call, re: self, im: None }
    }
}

impl Complex {
    fn call<'a>(&'a self, call: Call<'a>) -> Of<'a> {
        Of { call, re: &self.re, im: Some(&self.im) }
    }
}

transforms! {
    Tensor:
    /// [`Tensor::fft`] along several axes. PyTorch: `torch.fft.fftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 2, 2], ()).fftn(Default::default());
    /// assert_eq!(x.re.to_vec::<f32>()?, [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    fftn complex Forward Complex, std::convert::identity;
    Tensor:
    /// The inverse of [`Tensor::fftn`], of real numbers. PyTorch: `torch.fft.ifftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 2], ()).ifftn(Default::default());
    /// assert_eq!(x.re.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ifftn complex Inverse Complex, std::convert::identity;
    Tensor:
    /// [`Tensor::fft`] along the last two axes. PyTorch: `torch.fft.fft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([3, 2, 2], ()).fft2(Default::default());
    /// assert_eq!(x.re.slice(0, 0..1).to_vec::<f32>()?, [4.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    fft2 complex Forward Complex, plane;
    Tensor:
    /// The inverse of [`Tensor::fft2`], of real numbers. PyTorch: `torch.fft.ifft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 2], ()).ifft2(Default::default());
    /// assert_eq!(x.re.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ifft2 complex Inverse Complex, plane;
    Tensor:
    /// The first half, along the last axis named, of [`Tensor::fftn`] of real numbers.
    ///
    /// PyTorch: `torch.fft.rfftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([4, 4], ()).rfftn(Default::default());
    /// assert_eq!(x.shape()[..], [4, 3]);
    /// ```
    rfftn half Forward Complex, std::convert::identity;
    Tensor:
    /// [`Tensor::rfftn`] along the last two axes. PyTorch: `torch.fft.rfft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([3, 4, 4], ()).rfft2(Default::default());
    /// assert_eq!(x.shape()[..], [3, 4, 3]);
    /// ```
    rfft2 half Forward Complex, plane;
    Complex:
    /// [`Complex::fft`] along several axes. PyTorch: `torch.fft.fftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::ones([2, 2], ())).fftn(Default::default());
    /// assert_eq!(z.re.to_vec::<f32>()?, [4.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    fftn complex Forward Complex, std::convert::identity;
    Complex:
    /// The inverse of [`Complex::fftn`]. PyTorch: `torch.fft.ifftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let back = x.fftn(Default::default()).ifftn(Default::default());
    /// assert_eq!(back.re.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ifftn complex Inverse Complex, std::convert::identity;
    Complex:
    /// [`Complex::fft`] along the last two axes. PyTorch: `torch.fft.fft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::ones([3, 2, 2], ())).fft2(Default::default());
    /// assert_eq!(z.re.slice(0, 0..1).to_vec::<f32>()?, [4.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    fft2 complex Forward Complex, plane;
    Complex:
    /// The inverse of [`Complex::fft2`]. PyTorch: `torch.fft.ifft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let back = x.fft2(Default::default()).ifft2(Default::default());
    /// assert_eq!(back.re.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ifft2 complex Inverse Complex, plane;
    Complex:
    /// The inverse of [`Tensor::rfftn`]; the points of the last axis as in [`Complex::irfft`].
    ///
    /// PyTorch: `torch.fft.irfftn`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let back = x.rfftn(Default::default()).irfftn(Default::default());
    /// assert_eq!(back.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    irfftn whole Inverse Tensor, std::convert::identity;
    Complex:
    /// [`Complex::irfftn`] along the last two axes. PyTorch: `torch.fft.irfft2`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let back = x.rfft2(Default::default()).irfft2(Default::default());
    /// assert_eq!(back.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    irfft2 whole Inverse Tensor, plane;
}
