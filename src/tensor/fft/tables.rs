//! The constants of transforms, kept by the context.

use std::sync::Arc;

use crate::base::{DType, Result, Shape};
use crate::ir::Node;
use crate::plan::constants::ConstantKey;
use crate::plan::context;
use crate::tensor::compose::CallSite;
use crate::tensor::create::from_data;
use crate::tensor::fft::Direction;
use crate::tensor::fft::roots::{Pair, host_dft, root};
use crate::tensor::{Place, Tensor};

/// Complex constants to multiply by: `z * re + swapped z * im`, where the part that multiplies the imaginary
/// part is negated.
pub(super) struct Factors {
    /// `[.., 1, n]`.
    pub re: Tensor,
    /// `[.., 2, n]`: the imaginary parts, negated and as they are.
    pub im: Tensor,
}

/// Makes the constants of one call.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub site: CallSite,
    /// The tensor whose type and device they have.
    pub like: &'a Tensor,
}

impl Tables<'_> {
    /// The matrix of a transform of `r` points, on real and imaginary parts side by side: `[2, r, parts, r]`,
    /// results first. With one part, the points are real.
    pub fn matrix(self, r: usize, parts: usize, direction: Direction) -> Result<Tensor> {
        let sign = direction.sign();
        self.constant("matrix", [r, parts, direction as usize], &[2, r, parts, r], || {
            let roots: Vec<Pair> = (0..r).map(|k| root(k, r)).collect();
            let entry = |result: usize, k: usize, part: usize, j: usize| {
                let (cos, sin) = roots[k * j % r];
                match (result, part) {
                    (0, 0) | (1, 1) => cos,
                    (0, _) => -sign * sin,
                    (_, _) => sign * sin,
                }
            };
            let index = (0..2).flat_map(|result| (0..r).map(move |k| (result, k)));
            let rows = index.flat_map(|(result, k)| (0..parts).map(move |part| (result, k, part)));
            rows.flat_map(|(result, k, part)| (0..r).map(move |j| entry(result, k, part, j))).collect()
        })
    }

    /// The factors between a pass over `r` points and the other `m`: `e^(2 pi i k j / (r m))`, `[r, 1, m]`.
    pub fn twiddles(self, r: usize, m: usize, direction: Direction) -> Result<Factors> {
        let sign = direction.sign();
        self.factors("twiddles", [r, m, direction as usize], [r, m], || {
            let pair = |k: usize, j: usize| {
                let (cos, sin) = root(k * j, r * m);
                (cos, sign * sin)
            };
            (0..r).flat_map(|k| (0..m).map(move |j| pair(k, j))).collect()
        })
    }

    /// The chirp `e^(pi i k^2 / n)` for `k` below `n`.
    pub fn chirp(self, n: usize, direction: Direction) -> Result<Factors> {
        self.factors("chirp", [n, direction as usize, 0], [1, n], || chirp(n, direction))
    }

    /// The transform of the conjugate chirp on a circle of `m` points, over `m`.
    pub fn chirp_spectrum(self, n: usize, m: usize, direction: Direction) -> Result<Factors> {
        self.factors("chirp_spectrum", [n, m, direction as usize], [1, m], || {
            let mut around = vec![(0.0, 0.0); m];
            for (k, (re, im)) in chirp(n, direction).into_iter().enumerate() {
                around[k] = (re, -im);
                around[(m - k) % m] = (re, -im);
            }
            host_dft(&around).into_iter().map(|(re, im)| (re / m as f64, im / m as f64)).collect()
        })
    }

    /// The parts of `e^(-2 pi i k / n)` for half a turn, ends included: `[1, n / 2 + 1]` each.
    pub fn half_turn(self, n: usize) -> Result<[Tensor; 2]> {
        let points = n / 2 + 1;
        let both = self.constant("half_turn", [n, 0, 0], &[2, points], || {
            let roots: Vec<Pair> = (0..points).map(|k| root(k, n)).collect();
            roots.iter().map(|root| root.0).chain(roots.iter().map(|root| -root.1)).collect()
        })?;
        Ok([0, 1].map(|part| self.site.slice(&both, 0, part, part + 1, 1)))
    }

    fn factors(
        self,
        name: &'static str,
        arguments: [usize; 3],
        [rows, n]: [usize; 2],
        pairs: impl FnOnce() -> Vec<Pair>,
    ) -> Result<Factors> {
        let both = self.constant(name, arguments, &[3, rows, n], || {
            let pairs = pairs();
            let im = pairs.iter().map(|pair| pair.1);
            pairs.iter().map(|pair| pair.0).chain(im.clone().map(|im| -im)).chain(im).collect()
        })?;
        let part = |from: usize, to: usize| {
            let part = self.site.slice(&both, 0, from, to, 1);
            self.site.permute(&part, &[1, 0, 2])
        };
        Ok(Factors { re: part(0, 1), im: part(1, 3) })
    }

    fn constant(
        self,
        name: &'static str,
        arguments: [usize; 3],
        shape: &[usize],
        values: impl FnOnce() -> Vec<f64>,
    ) -> Result<Tensor> {
        let CallSite { name: called, span } = self.site;
        let (dtype, device) = (self.like.dtype(), self.like.device());
        let key = ConstantKey { name, arguments, dtype, device };
        let node: Arc<Node> = context::current().constants.get(key, || {
            let (shape, place): (Shape, Place) = (shape.into(), self.like.into());
            let tensor = match dtype {
                _ if device.is_meta() => Tensor::empty(shape, place),
                DType::F64 => from_data(called, span, &values(), shape, place),
                _ => {
                    let rounded: Vec<f32> = values().into_iter().map(|value| value as f32).collect();
                    from_data(called, span, &rounded, shape, place)
                }
            };
            tensor.node().cloned()
        })?;
        Ok(Tensor::from_node(node))
    }
}

fn chirp(n: usize, direction: Direction) -> Vec<Pair> {
    let squared = |k: usize| (k as u128 * k as u128 % (2 * n) as u128) as usize;
    let pair = |k: usize| {
        let (cos, sin) = root(squared(k), 2 * n);
        (cos, direction.sign() * sin)
    };
    (0..n).map(pair).collect()
}
