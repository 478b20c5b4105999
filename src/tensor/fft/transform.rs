//! The transform itself. The CPU has a kernel of its own; elsewhere, and for few points, it is operations on
//! packed numbers: `[batch, parts, n]`, real parts before imaginary ones.
//!
//! A length `r m` is `r` points apart by `m` at a time: a product with the matrix of `r` points, a
//! multiplication by roots of unity, and the transform of the `m` that are left (Cooley and Tukey, "An
//! algorithm for the machine calculation of complex Fourier series", 1965). Each pass puts its frequencies
//! before those found so far, so the results come out in order (the autosort of Stockham). A large prime
//! becomes a convolution with a chirp, which is a product of transforms of a length that has factors
//! (Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform", 1970).

use crate::base::{DeviceKind, Precision, Result};
use crate::ir::{Op, PadAxis};
use crate::runtime::cpu::fourier::{Fourier, smooth};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::fft::Direction;
use crate::tensor::fft::factors::{factors, is_direct};
use crate::tensor::fft::tables::{Factors, Tables};
use crate::tensor::join::cat_along;
use crate::tensor::rule::with_rule;

/// The transform along the rows of a matrix of real and imaginary parts, not scaled.
pub(super) fn transform(
    site: CallSite,
    re: &Tensor,
    im: Option<&Tensor>,
    direction: Direction,
) -> Result<[Tensor; 2]> {
    let native = re.device().kind == DeviceKind::Cpu && !is_direct(re.shape()[1]) && re.numel() > 0;
    let operands: Vec<&Tensor> = std::iter::once(re).chain(im).collect();
    let z = if native {
        by_kernel(site, re, im, direction)
    } else {
        unscaled(site, &packed(site, &operands)?, direction)?
    };
    let complex = im.is_some();
    // The matrix is symmetric, so its transpose as a real map is the transform the other way.
    let z = with_rule(z, &operands, move |_, _, cotangent| {
        let [g, h] = parts(site, cotangent);
        let back = site.build_pair(&[cotangent], || {
            transform(site, &g, Some(&h), direction.reverse()).map(|[re, im]| (re, im))
        });
        if complex { vec![Some(back.0), Some(back.1)] } else { vec![Some(back.0)] }
    });
    Ok(parts(site, &z))
}

/// Real and imaginary parts as `[batch, parts, n]`.
fn packed(site: CallSite, parts: &[&Tensor]) -> Result<Tensor> {
    let parts: Vec<Tensor> = parts.iter().map(|part| site.unsqueeze(part, 1)).collect();
    cat_along(site, &parts.iter().collect::<Vec<_>>(), 1)
}

fn parts(site: CallSite, z: &Tensor) -> [Tensor; 2] {
    [0, 1].map(|part| site.select_index(z, 1, part))
}

/// By the CPU's own kernel, as `[batch, 2, n]`.
fn by_kernel(site: CallSite, re: &Tensor, im: Option<&Tensor>, direction: Direction) -> Tensor {
    let inverse = direction == Direction::Inverse;
    // The kernel takes real numbers one way only.
    let zeros = (inverse && im.is_none()).then(|| site.zeros_like(re));
    let operands: Vec<&Tensor> = std::iter::once(re).chain(im.or(zeros.as_ref())).collect();
    let (points, dtype) = (re.shape()[1], re.dtype());
    let kernel = Fourier { points, inverse, complex: operands.len() == 2, dtype }.kernel();
    site.apply(Op::Custom(kernel, 0), &operands)
}

/// `[batch, 1 or 2, n]` to `[batch, 2, n]`.
fn unscaled(site: CallSite, z: &Tensor, direction: Direction) -> Result<Tensor> {
    let tables = Tables { site, like: z };
    let [batch, mut parts, n] = z.dims()?;
    let (mut z, mut found, mut rest) = (z.clone(), 1, n);
    let lengths = if n == 1 { vec![1] } else { factors(n) };
    for r in lengths {
        rest /= r;
        // [r, found, batch, 2, rest]
        let y = pass(tables, &site.reshape(&z, &[found * batch, parts, r, rest]), direction)?;
        let y = if rest == 1 { y } else { multiplied(site, &y, &tables.twiddles(r, rest, direction)?, 2) };
        (found, parts) = (found * r, 2);
        z = site.reshape(&y, &[found * batch, 2, rest]);
    }
    let z = site.reshape(&z, &[n, batch, 2]);
    Ok(site.permute(&z, &[1, 2, 0]))
}

/// The transforms along axis 2 of `[batch, parts, r, m]`, as `[r, batch, 2, m]`.
fn pass(tables: Tables, x: &Tensor, direction: Direction) -> Result<Tensor> {
    let [batch, parts, r, m] = x.dims()?;
    let site = tables.site;
    if is_direct(r) {
        let matrix = tables.matrix(r, parts, direction)?;
        let y = site.contract_as(&matrix, x, &[], &[(2, 1), (3, 2)], Precision::Highest);
        return Ok(site.permute(&y, &[1, 2, 0, 3]));
    }
    let rows = site.reshape(&site.permute(x, &[0, 3, 1, 2]), &[batch * m, parts, r]);
    let y = site.reshape(&chirped(tables, &rows, direction)?, &[batch, m, 2, r]);
    Ok(site.permute(&y, &[3, 0, 2, 1]))
}

/// The transform of `[batch, parts, n]` by a convolution: `j k = (j^2 + k^2 - (k - j)^2) / 2`.
fn chirped(tables: Tables, x: &Tensor, direction: Direction) -> Result<Tensor> {
    let [_, parts, n] = x.dims()?;
    let (site, m) = (tables.site, smooth(2 * n - 1));
    let chirp = tables.chirp(n, direction)?;
    let padded = |x: &Tensor, axis: usize, hi: usize| {
        let mut pads = vec![PadAxis::default(); 3];
        pads[axis].hi = hi as i64;
        site.pad(x, pads, 0.0)
    };
    let a = multiplied(site, &padded(x, 1, 2 - parts), &chirp, 1);
    let spectrum = unscaled(site, &padded(&a, 2, m - n), Direction::Forward)?;
    let spectrum = multiplied(site, &spectrum, &tables.chirp_spectrum(n, m, direction)?, 1);
    let convolved = unscaled(site, &spectrum, Direction::Inverse)?;
    Ok(multiplied(site, &site.slice(&convolved, 2, 0, n, 1), &chirp, 1))
}

/// Complex numbers whose parts lie along an axis, the last but one, times constants.
fn multiplied(site: CallSite, z: &Tensor, by: &Factors, axis: usize) -> Tensor {
    // [rows, 1 or 2, n] as [rows, 1, .., 1, 1 or 2, n].
    let beside = |x: &Tensor| {
        let shape = x.shape();
        let mut dims = vec![1; axis + 2];
        (dims[axis], dims[axis + 1]) = (shape[1], shape[2]);
        dims[0] = shape[0];
        site.reshape(x, &dims)
    };
    site.add(site.mul(z, beside(&by.re)), site.mul(site.flip(z, &[axis]), beside(&by.im)))
}
