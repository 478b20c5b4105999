//! From numbers to codes and scales: the rules of ggml's reference quantizer.

use crate::base::DType;
use crate::ir::AluOp;
use crate::ir::monoid::Monoid;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::{BLOCK, Quantization};

/// Packed codes, scales, and offsets if there are any, of blocks `[.., blocks, 32]`.
pub(super) fn round(
    site: CallSite,
    x: &Tensor,
    quantization: Quantization,
) -> (Tensor, Tensor, Option<Tensor>) {
    let last = [x.rank() - 1];
    match quantization {
        Quantization::Q8_0 => {
            let (codes, scale) = round_to_bytes(site, x);
            (codes, half(site, &scale), None)
        }
        // The number of the greatest magnitude, the first of several, is the code 0, whichever sign it has.
        Quantization::Q4_0 => {
            let place = site.reduce_keepdim(Monoid::ArgMax, &site.unary(AluOp::Abs, x), &last);
            let scale = site.div(site.gather(x, last[0], &place), -8.0);
            let steps = site.unary(AluOp::Floor, &site.add(steps(site, x, &scale), 8.5));
            (pairs(site, &codes(site, &steps, 15.0)), half(site, &scale), None)
        }
        Quantization::Q4_1 => {
            let [least, most] = [Monoid::Min, Monoid::Max].map(|it| site.reduce_keepdim(it, x, &last));
            let scale = site.div(site.sub(&most, &least), 15.0);
            let steps = steps(site, &site.sub(x, &least), &scale);
            let steps = site.unary(AluOp::Floor, &site.add(steps, 0.5));
            (pairs(site, &codes(site, &steps, 15.0)), half(site, &scale), Some(half(site, &least)))
        }
    }
}

/// Codes of 8 bits, 128 more than -127 to 127, of rows along the last axis, and each row's scale in the type
/// of `x`. A row with an infinite number or a NaN has a scale that is not finite.
pub(crate) fn round_to_bytes(site: CallSite, x: &Tensor) -> (Tensor, Tensor) {
    let last = [x.rank() - 1];
    let most = site.reduce_keepdim(Monoid::Max, &site.unary(AluOp::Abs, x), &last);
    let scale = site.div(most, 127.0);
    let steps = whole(site, &steps(site, x, &scale));
    (codes(site, &site.add(&steps, 128.0), 255.0), scale)
}

/// The nearest whole number, ties away from 0.
fn whole(site: CallSite, x: &Tensor) -> Tensor {
    let towards = site.unary(AluOp::Trunc, x);
    let rest = site.sub(x, &towards);
    site.add(towards, site.unary(AluOp::Trunc, &site.mul(rest, 2.0)))
}

/// How many scales a number is; none in a block of zeros.
fn steps(site: CallSite, x: &Tensor, scale: &Tensor) -> Tensor {
    let nothing = site.eq(scale, 0.0);
    let inverse = site.div(1.0, site.select(&nothing, 1.0, scale, scale.dtype()));
    site.mul(x, site.select(&nothing, 0.0, inverse, scale.dtype()))
}

/// Steps as codes, held within what the bits can have.
fn codes(site: CallSite, steps: &Tensor, most: f64) -> Tensor {
    site.cast(&site.min(site.max(steps, 0.0), most), DType::U8)
}

fn half(site: CallSite, x: &Tensor) -> Tensor {
    site.cast(x, DType::F16)
}

/// The codes of both halves of a block in one byte each.
fn pairs(site: CallSite, codes: &Tensor) -> Tensor {
    let last = codes.rank() - 1;
    let lower = site.slice(codes, last, 0, BLOCK / 2, 1);
    let upper = site.slice(codes, last, BLOCK / 2, BLOCK, 1);
    site.binary(AluOp::Or, &lower, site.binary(AluOp::Shl, &upper, 4))
}
