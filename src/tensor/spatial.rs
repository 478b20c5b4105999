//! Sizes along the spatial axes of images: one for all, or one for each; and
//! the checks that convolutions, pools and resampling share.

use smallvec::SmallVec;

use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked};

/// Sizes along spatial axes: one number for all of them, or one for each.
///
/// Negative numbers can be said, and are refused where they make no sense.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([1, 1, 4, 4], ());
/// assert_eq!(x.max_pool2d(2, Default::default()).dims()?, [1, 1, 2, 2]);
/// assert_eq!(x.max_pool2d([1, 2], Default::default()).dims()?, [1, 1, 4, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub SmallVec<[i64; 3]>);

macro_rules! sizes_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Sizes {
            fn from(size: $t) -> Sizes {
                Sizes(SmallVec::from_slice(&[i64::try_from(size).unwrap_or(i64::MAX)]))
            }
        }
        impl<const N: usize> From<[$t; N]> for Sizes {
            fn from(sizes: [$t; N]) -> Sizes {
                Sizes(sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect())
            }
        }
        impl From<&[$t]> for Sizes {
            fn from(sizes: &[$t]) -> Sizes {
                Sizes(sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect())
            }
        }
    )*};
}
sizes_from!(i32, i64, usize);

impl From<Vec<i64>> for Sizes {
    fn from(sizes: Vec<i64>) -> Sizes {
        Sizes(SmallVec::from_vec(sizes))
    }
}

/// The largest size along a spatial axis; products and sums of a few such
/// sizes and an extent fit `i64`.
pub(crate) const LARGEST: i64 = i32::MAX as i64;

impl Sizes {
    /// One size for each of `axes` axes, each in `least..=LARGEST`; `what`
    /// names them in the error.
    pub(crate) fn resolve(
        &self,
        site: CallSite,
        what: &str,
        axes: usize,
        least: i64,
        operands: &[&Tensor],
    ) -> Checked<Vec<usize>> {
        let all = match self.0.len() {
            1 => vec![self.0[0]; axes],
            _ => self.0.to_vec(),
        };
        let fits = all.len() == axes && all.iter().all(|&size| (least..=LARGEST).contains(&size));
        site.require(fits, operands, || {
            let expected = format!("1 or {axes} numbers in {least}..={LARGEST} for {what}");
            (expected, format!("{:?}", &self.0[..]))
        })?;
        Ok(all.into_iter().map(|size| size as usize).collect())
    }
}

/// The operand as a batch `[n, c, spatial..]`, and whether it lacked the
/// batch axis.
pub(crate) fn batched(site: CallSite, x: &Tensor, spatial: usize) -> Checked<(Tensor, bool)> {
    let fits = x.rank() == spatial + 1 || x.rank() == spatial + 2;
    site.require(fits, &[x], || {
        (format!("a tensor of rank {} or {}", spatial + 1, spatial + 2), format!("rank {}", x.rank()))
    })?;
    let lone = x.rank() == spatial + 1;
    Ok((if lone { site.unsqueeze(x, 0) } else { x.clone() }, lone))
}

/// Undoes [`batched`].
pub(crate) fn unbatched(site: CallSite, y: &Tensor, lone: bool) -> Tensor {
    if lone && y.ty().is_some() { site.squeeze(y, 0) } else { y.clone() }
}
