//! Drawing categories by their probabilities.

use crate::base::{DType, Result, Shape};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::random::Generator;
use crate::tensor::sort::TopkOpts;

impl Generator {
    /// Categories drawn by their probabilities; see [`Tensor::multinomial`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let mut generator = kiln::Generator::new(7);
    /// let drawn = generator.multinomial(&Tensor::from([0.0f32, 3.0]), 4, true);
    /// assert_eq!(drawn.to_vec::<i64>()?, [1, 1, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&mut self, probabilities: &Tensor, samples: usize, replacement: bool) -> Tensor {
        let site = CallSite::here("multinomial");
        site.build(&[probabilities], || {
            let shape = noise(site, probabilities, samples, replacement)?;
            let noise = self.rand(shape, (probabilities.device(), probabilities.dtype().compute()));
            Ok(drawn(probabilities, samples, replacement, &noise))
        })
    }
}

impl Tensor {
    /// Categories along the last axis, drawn with these probabilities, which need not sum to 1.
    ///
    /// `[.., n]` gives `[.., samples]` of `I64`. Without `replacement` no category comes twice. A
    /// probability that is not above 0 is never drawn while others are left.
    ///
    /// Invalid for integers, without categories, or for more samples than categories without
    /// `replacement`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let drawn = Tensor::from([0.5f32, 0.0, 0.5]).multinomial(2, false);
    /// assert_eq!(drawn.sort(-1, false).0.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: usize, replacement: bool) -> Tensor {
        let site = CallSite::here("multinomial");
        site.build(&[self], || {
            let shape = noise(site, self, samples, replacement)?;
            let noise = Tensor::rand(shape, (self.device(), self.dtype().compute()));
            Ok(drawn(self, samples, replacement, &noise))
        })
    }
}

/// The shape of the random numbers that a draw takes.
///
/// # Errors
/// What makes the draw invalid.
fn noise(site: CallSite, probabilities: &Tensor, samples: usize, replacement: bool) -> Result<Shape> {
    let shape = probabilities.shape();
    let Some(&categories) = shape.last().filter(|_| probabilities.dtype().is_float()) else {
        let found = format!("{}{shape}", probabilities.dtype());
        return Err(site.error("floating probabilities of rank 1 or more", found, &[probabilities]));
    };
    if categories == 0 || (!replacement && samples > categories) {
        let expected = format!("at most {categories} samples of as many categories without replacement");
        return Err(site.error(expected, samples.to_string(), &[probabilities]));
    }
    let mut dims = shape.to_vec();
    if replacement && samples != 1 {
        dims.insert(dims.len() - 1, samples);
    }
    Ok(Shape::new(&dims))
}

/// Races of exponential waiting times: who comes first is distributed as wanted, and so is the order of
/// the others (Efraimidis and Spirakis 2006).
fn drawn(probabilities: &Tensor, samples: usize, replacement: bool, noise: &Tensor) -> Tensor {
    let probabilities = probabilities.to_dtype(noise.dtype()).clamp_min(0.0);
    let waiting = -(1.0 - noise).log();
    let speed = if noise.rank() > probabilities.rank() { probabilities.unsqueeze(-2) } else { probabilities };
    // Times of 0 would be won by what is never drawn.
    let first = speed / waiting.clamp_min(f64::from(f32::MIN_POSITIVE));
    match (replacement, samples) {
        (_, 1) => first.argmax(-1).unsqueeze(-1),
        (true, _) => first.argmax(-1),
        (false, _) => first.topk(samples, TopkOpts::default()).1.to_dtype(DType::I64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_come_as_often_as_their_probabilities_say() {
        let mut generator = Generator::new(11);
        let weights = Tensor::from([[1.0f32, 2.0, 0.0, 5.0], [0.0, 0.0, 3.0, 0.0]]);
        let drawn = generator.multinomial(&weights, 8000, true);
        assert_eq!((drawn.shape()[..].to_vec(), drawn.dtype()), (vec![2, 8000], DType::I64));
        let drawn = drawn.to_vec::<i64>().expect("categories");
        for (category, expected) in [(0, 1000.0), (1, 2000.0), (2, 0.0), (3, 5000.0)] {
            let found = drawn[..8000].iter().filter(|&&x| x == category).count() as f64;
            // Four standard deviations at most.
            assert!((found - expected).abs() <= 180.0, "{category}: {found}");
        }
        assert!(drawn[8000..].iter().all(|&x| x == 2));
    }

    #[test]
    fn without_replacement_none_comes_twice_and_the_likely_come_first() {
        let mut generator = Generator::new(12);
        let weights = Tensor::from([6.0f32, 0.0, 1.0, 3.0]).unsqueeze(0).expand([2000, 4]);
        let drawn = generator.multinomial(&weights, 3, false).to_vec::<i64>().expect("categories");
        let first = drawn.chunks(3).filter(|row| row[0] == 0).count();
        assert!((1110..=1290).contains(&first), "{first}");
        for row in drawn.chunks(3) {
            let mut row = row.to_vec();
            row.sort_unstable();
            assert_eq!(row, [0, 2, 3]);
        }
    }

    #[test]
    fn draws_that_cannot_be_made_say_why() {
        let two = Tensor::from([1.0f32, 1.0]);
        let error = |x: Tensor| x.check().expect_err("invalid").to_string();
        assert!(error(two.multinomial(3, false)).contains("at most 2 samples"));
        assert!(error(Tensor::from([1i64, 1]).multinomial(1, true)).contains("floating"));
        assert!(error(Tensor::zeros([2, 0], ()).multinomial(1, true)).contains("0 samples"));
        assert!(two.multinomial(3, true).check().is_ok());
    }
}
