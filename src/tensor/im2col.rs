//! Patches of images as columns, and back (PyTorch's `unfold` and `fold` of
//! images).

use crate::base::shape::volume;
use crate::ir::op::WindowAxis;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::options::options;
use crate::tensor::polyphase::{PaddedWindow, overlap_add, windows};
use crate::tensor::spatial::{Sizes, batched, unbatched};

options! {
    /// How [`Tensor::im2col`] and [`Tensor::col2im`] slide.
    ///
    /// Each size is one number or one per axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::Im2colOpts;
    /// let x = Tensor::zeros([1, 1, 4, 4], ());
    /// assert_eq!(x.im2col(2, Im2colOpts::default().stride(2)).dims()?, [1, 4, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    Im2colOpts {
        /// Distance between elements of a patch (1).
        dilation: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Zeros around the image (0).
        padding: Sizes = 0.into(), impl Into<Sizes> => Into::into;
        /// Distance between patches (1).
        stride: Sizes = 1.into(), impl Into<Sizes> => Into::into;
    }
}

impl Tensor {
    /// The patches of images as columns.
    ///
    /// `[n, c, h, w]` (or without `n`) gives `[n, c * kernel, patches]`. Invalid when shapes do not
    /// fit. PyTorch: `nn.functional.unfold`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([1, 3, 4, 4], ());
    /// assert_eq!(x.im2col([2, 2], Default::default()).dims()?, [1, 12, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn im2col(&self, kernel: impl Into<Sizes>, opts: Im2colOpts) -> Tensor {
        let site = CallSite::here("im2col");
        finish(im2col(site, self, &kernel.into(), &opts))
    }

    /// The adjoint of [`Tensor::im2col`]: sums columns back into an image.
    ///
    /// `[n, c * kernel, patches]` gives `[n, c, h, w]` of the given height and width. PyTorch:
    /// `nn.functional.fold`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let columns = Tensor::ones([1, 4, 4], ());
    /// assert_eq!(columns.col2im([3, 3], 2, Default::default()).sum(..).to_vec::<f32>()?, [16.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn col2im(&self, size: impl Into<Sizes>, kernel: impl Into<Sizes>, opts: Im2colOpts) -> Tensor {
        let site = CallSite::here("col2im");
        finish(col2im(site, self, &size.into(), &kernel.into(), &opts))
    }
}

/// Windows along the height and width, and their padding.
fn patches(site: CallSite, x: &Tensor, kernel: &Sizes, opts: &Im2colOpts) -> Checked<[PaddedWindow; 2]> {
    let size = kernel.resolve(site, "kernel size", 2, 1, &[x])?;
    let stride = opts.stride.resolve(site, "stride", 2, 1, &[x])?;
    let dilation = opts.dilation.resolve(site, "dilation", 2, 1, &[x])?;
    let padding = opts.padding.resolve(site, "padding", 2, 0, &[x])?;
    let patch = |i: usize| PaddedWindow {
        window: WindowAxis { axis: 2 + i as u8, size: size[i], stride: stride[i], dilation: dilation[i] },
        pad: (padding[i] as i64, padding[i] as i64),
    };
    Ok([patch(0), patch(1)])
}

fn im2col(site: CallSite, x: &Tensor, kernel: &Sizes, opts: &Im2colOpts) -> Checked<Tensor> {
    let (x, lone) = batched(site, x, 2)?;
    let patches = patches(site, &x, kernel, opts)?;
    let y = windows(site, &x, patches.to_vec(), 0i64);
    site.valid(&[&y])?;
    let shape = y.shape();
    site.require(!shape[2..4].contains(&0), &[&x], || {
        ("a padded image that a patch fits in".into(), format!("shape {}", x.shape()))
    })?;
    let dims = [shape[0], volume(&[shape[1], shape[4], shape[5]]), volume(&shape[2..4])];
    let y = site.reshape(&site.permute(&y, &[0, 1, 4, 5, 2, 3]), &dims);
    Ok(unbatched(site, &y, lone))
}

fn col2im(site: CallSite, x: &Tensor, size: &Sizes, kernel: &Sizes, opts: &Im2colOpts) -> Checked<Tensor> {
    let (x, lone) = batched(site, x, 1)?;
    let along = patches(site, &x, kernel, opts)?;
    let size = size.resolve(site, "output size", 2, 1, &[&x])?;
    let counts = [0, 1].map(|i| along[i].window.count(size[i] + 2 * along[i].pad.0 as usize));
    let [rows, columns] = along.map(|along| along.window);
    let patch = rows.size * columns.size;
    let shape = x.shape();
    let fits = shape[1] % patch == 0 && shape[2] == volume(&counts);
    site.require(fits, &[&x], || {
        let expected = format!("columns of a multiple of {patch}, {} of them", volume(&counts));
        (expected, format!("shape {shape}"))
    })?;
    let dims = [shape[0], shape[1] / patch, rows.size, columns.size, counts[0], counts[1]];
    let y = site.permute(&site.reshape(&x, &dims), &[0, 1, 4, 5, 2, 3]);
    let image = [shape[0], shape[1] / patch, size[0], size[1]];
    Ok(unbatched(site, &overlap_add(site, &y, &along, &image), lone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, pattern, values};

    #[test]
    fn patches_times_a_kernel_are_a_convolution() {
        let (x, w) = (pattern(&[2, 3, 5, 6], 1), pattern(&[4, 3, 2, 3], 2));
        let columns = x.im2col([2, 3], Im2colOpts::default().stride([2, 1]).padding(1).dilation([1, 2]));
        let kernel = CallSite::here("reshape").reshape(&w, &[4, 18]);
        let opts = crate::tensor::conv::ConvOpts::default().stride([2, 1]).padding(1).dilation([1, 2]);
        let y = x.conv2d(&w, None, opts);
        let dims = [2, 4, y.shape()[2] * y.shape()[3]];
        assert_close(&kernel.matmul(&columns), &dims, &values(&y));
    }

    #[test]
    fn columns_sum_back_to_as_many_copies_as_patches_hold_an_element() {
        let x = pattern(&[1, 2, 4, 4], 1);
        let opts = Im2colOpts::default().stride(2);
        let back = x.im2col(2, opts.clone()).col2im(4, 2, opts);
        assert_close(&back, &[1, 2, 4, 4], &values(&x));
        let opts = Im2colOpts::default().padding(1);
        let back = x.im2col(3, opts.clone()).col2im([4, 4], 3, opts);
        let copies = [4.0, 6.0, 6.0, 4.0, 6.0, 9.0, 9.0, 6.0, 6.0, 9.0, 9.0, 6.0, 4.0, 6.0, 6.0, 4.0];
        let expected: Vec<f64> = values(&x).iter().enumerate().map(|(i, v)| v * copies[i % 16]).collect();
        assert_close(&back, &[1, 2, 4, 4], &expected);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let x = pattern(&[1, 2, 3, 3], 1);
        assert!(error_text(&x.im2col(4, Im2colOpts::default())).contains("fits"));
        assert!(
            error_text(&x.im2col(2, Im2colOpts::default()).col2im(9, 2, Im2colOpts::default()))
                .contains("64")
        );
    }
}
