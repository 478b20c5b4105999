//! How values are distributed, in TensorFlow's default buckets.

/// The first limit above 0.
const SMALLEST: f64 = 1e-12;

/// The last finite limit but one is below it.
const LARGEST: f64 = 1e20;

/// Each limit by the one before.
const GROWTH: f64 = 1.1;

/// How values are distributed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    pub min: f64,
    pub max: f64,
    pub count: f64,
    pub sum: f64,
    pub sum_of_squares: f64,
    /// Upper ends of buckets, ascending; each bucket starts where the one before ends.
    pub limits: Vec<f64>,
    /// Values in the buckets. The first is empty: its end says where the next begins.
    pub counts: Vec<f64>,
}

impl Histogram {
    /// Of the finite ones of some values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Histogram> {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let limits = limits();
        let mut counts = vec![0.0; limits.len()];
        for value in &finite {
            // The last limit is above all.
            let bucket = limits.partition_point(|limit| limit <= value).min(limits.len() - 1);
            counts[bucket] += 1.0;
        }
        let first = counts.iter().position(|&count| count > 0.0)?;
        let last = counts.iter().rposition(|&count| count > 0.0)?;
        let from = first.saturating_sub(1);
        Some(Histogram {
            min: finite.iter().copied().fold(f64::INFINITY, f64::min),
            max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            count: finite.len() as f64,
            sum: finite.iter().sum(),
            sum_of_squares: finite.iter().map(|value| value * value).sum(),
            limits: limits[from..=last].to_vec(),
            counts: counts[from..=last].to_vec(),
        })
    }
}

/// The upper ends of all buckets, symmetric around 0.
fn limits() -> Vec<f64> {
    let above: Vec<f64> = std::iter::successors(Some(SMALLEST), |limit| Some(limit * GROWTH))
        .take_while(|&n| n < LARGEST)
        .collect();
    let below = above.iter().rev().map(|limit| -limit);
    [-f64::MAX].into_iter().chain(below).chain([0.0]).chain(above.iter().copied()).chain([f64::MAX]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_bucket_around_it() {
        let values = [-3.0, 0.0, 0.25, 0.25, 1e-30, 7.0, f64::NAN, f64::INFINITY];
        let found = Histogram::of(&values).expect("finite values");
        assert_eq!((found.min, found.max, found.count, found.sum), (-3.0, 7.0, 6.0, 4.5));
        assert_eq!(found.sum_of_squares, 9.0 + 2.0 / 16.0 + 49.0 + 1e-60);
        assert_eq!(found.counts.iter().sum::<f64>(), 6.0);
        assert_eq!((found.counts[0], found.limits.len()), (0.0, found.counts.len()));
        let pair = found.limits.iter().position(|&limit| limit > 0.25).expect("a limit above");
        assert!(found.counts[pair] == 2.0 && found.limits[pair] < 0.25 * 1.1);
        assert!(found.limits[pair - 1] <= 0.25);
        assert!(found.limits.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_largest_number_has_a_bucket_and_nothing_has_none() {
        assert_eq!(Histogram::of(&[f64::MAX, -f64::MAX]).expect("two").counts.iter().sum::<f64>(), 2.0);
        assert_eq!(Histogram::of(&[f64::NAN]), None);
        assert_eq!(Histogram::of(&[]), None);
    }
}
