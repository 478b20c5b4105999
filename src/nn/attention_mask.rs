//! Where the queries of an attention layer may look.

use crate::base::{DType, Result};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// What limits or weighs a look by the distance between positions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PositionMask {
    /// Only at the position itself and earlier ones.
    pub causal: bool,
    /// Only at positions less than so far away.
    pub window: Option<usize>,
    /// Scores fall with the distance (Press et al. 2022), for so many heads.
    pub alibi: Option<usize>,
}

/// The positions of the queries and keys of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positions<'a> {
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// The first query's position, where it follows others that are cached; of the keys, those after the
    /// last query's position are not there then.
    pub start: Option<&'a Tensor>,
    /// Where each sequence begins, `[n]`; before that is padding, which sees itself alone.
    pub starts: Option<&'a Tensor>,
}

impl PositionMask {
    /// Whether it says no more than that a layer is causal, or nothing.
    pub fn is_plain(self) -> bool {
        self.window.is_none() && self.alibi.is_none()
    }

    /// A mask that allows what this and the `given` one do, and adds what they add, for the scores of the
    /// queries `q`; `None` if nothing is limited.
    ///
    /// # Errors
    /// Masks that do not broadcast.
    pub fn with(
        self,
        site: CallSite,
        q: &Tensor,
        at: Positions<'_>,
        given: Option<&Tensor>,
    ) -> Result<Option<Tensor>> {
        let distance = self.distance(site, q, at);
        let (marks, summand) = match given {
            Some(mask) if mask.dtype() == DType::Bool => (Some(mask.clone()), None),
            given => (None, given.cloned()),
        };
        let look = both(self.look(&distance, at), marks, |a, b| a.logical_and(b));
        let own = self.alibi.map(|heads| bias(&distance, heads).to_dtype(q.dtype()));
        let bias = both(own, summand, |a, b| a + b);
        let mask = both(look, bias, |look, bias| look.select(bias, f64::NEG_INFINITY));
        mask.as_ref().map_or(Ok(()), Tensor::check)?;
        Ok(mask)
    }

    /// How far each query is behind each key: `[queries, keys]`.
    fn distance(self, site: CallSite, q: &Tensor, at: Positions<'_>) -> Tensor {
        let along = |count: usize, axis: usize| site.iota_along(count, axis, 2, DType::I64, q.device());
        let queries = along(at.queries, 0);
        let queries = at.start.map_or(queries.clone(), |start| queries + start);
        queries - along(at.keys, 1)
    }

    /// Which keys each query may look at; `None` if at all.
    fn look(self, distance: &Tensor, at: Positions<'_>) -> Option<Tensor> {
        let later = match (self.causal, at.start) {
            (true, _) => Some(distance.ge(0)),
            // The last query is at the end of what is there.
            (false, Some(_)) => {
                let behind = Tensor::arange(0, at.queries as i64, 1, (distance.device(), DType::I64));
                Some(distance.ge(behind.unsqueeze(1) - (at.queries as i64 - 1)))
            }
            (false, None) => None,
        };
        let window = self.window.map(|window| {
            let near = distance.lt(window as i64);
            if self.causal { near } else { near.logical_and(&distance.gt(-(window as i64))) }
        });
        // Padding sees itself, since what sees nothing is NaN.
        let begun = at.starts.map(|starts| {
            let keys = Tensor::arange(0, at.keys as i64, 1, (distance.device(), DType::I64));
            keys.ge(starts.reshape([-1, 1, 1, 1])).logical_or(&distance.eq(0))
        });
        let look = both(later, window, |a, b| a.logical_and(b));
        both(look, begun, |a, b| a.logical_and(b))
    }
}

/// Two tensors joined, or the one that is there.
fn both(a: Option<Tensor>, b: Option<Tensor>, join: impl Fn(&Tensor, &Tensor) -> Tensor) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(&a, &b)),
        (a, b) => a.or(b),
    }
}

/// What is added to scores by distance: `[heads, queries, keys]`.
fn bias(distance: &Tensor, heads: usize) -> Tensor {
    let place = (distance.device(), DType::F32);
    let slopes = Tensor::from_vec(slopes(heads), [heads, 1, 1], distance.device());
    -(slopes * distance.abs().to_dtype(place.1))
}

/// How fast each head's scores fall: powers of two in equal steps down to 2^-8; of other numbers of heads
/// than powers of two, those of the next lower one, and every second of the next higher one.
fn slopes(heads: usize) -> Vec<f32> {
    let power = (heads + 1).next_power_of_two() / 2;
    let slope = |i: usize, of: usize| (2f64.powf(-8.0 * (i + 1) as f64 / of as f64)) as f32;
    let first = (0..power).map(|i| slope(i, power));
    first.chain((0..).map(|i| slope(2 * i, 2 * power))).take(heads).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_the_papers() {
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        // Six heads: those of four, then every second of eight.
        let expected = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125];
        assert_eq!(slopes(6), expected);
    }
}
