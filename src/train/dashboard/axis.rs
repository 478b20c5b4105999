//! Axes with round numbers.

/// The ends of an axis over some values, and the texts of its evenly spaced ticks, `most` at most.
pub(super) fn axis(values: impl Iterator<Item = f64>, most: usize) -> ([f64; 2], Vec<String>) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let (low, high) = match high - low {
        range if range > 0.0 => (low, high),
        // One value: around it, so that ticks tell it from its neighbors.
        _ if low.is_finite() => (low - 0.05 * low.abs().max(1e-6), high + 0.05 * high.abs().max(1e-6)),
        _ => (0.0, 1.0),
    };
    let mut step = round_up((high - low) / most.saturating_sub(1).max(1) as f64);
    while (high / step).ceil() - (low / step).floor() > most.saturating_sub(1).max(1) as f64 {
        step = round_up(step * 1.001);
    }
    let (first, last) = ((low / step).floor(), (high / step).ceil().max((low / step).floor() + 1.0));
    let ticks = (0..=(last - first) as usize).map(|tick| text((first + tick as f64) * step, step));
    ([first * step, last * step], ticks.collect())
}

/// Steps of axes, by powers of ten.
const STEPS: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// The next number that is a step.
fn round_up(x: f64) -> f64 {
    let power = 10f64.powf(x.log10().floor());
    // What is one but for rounding stays.
    let factor = STEPS.into_iter().find(|factor| factor * power >= x * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A multiple of a step, with as many places as steps need.
fn text(value: f64, step: f64) -> String {
    let value = if value.abs() < step / 2.0 { 0.0 } else { value };
    if !(1e-6..1e6).contains(&step) {
        return if value == 0.0 { "0".into() } else { format!("{value:.1e}") };
    }
    let places = (-step.log10().floor()).max(0.0) as usize;
    let is_whole = |places: usize| (step * 10f64.powi(places as i32)).fract() < 1e-6;
    format!("{value:.*}", if is_whole(places) { places } else { places + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], most: usize) -> String {
        axis(values.iter().copied(), most).1.join(" ")
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(&[0.03, 2.31], 5), "0.0 0.6 1.2 1.8 2.4");
        assert_eq!(ticks(&[0.03, 2.31], 3), "0.0 1.5 3.0");
        assert_eq!(ticks(&[0.03, 2.31], 2), "0.0 2.5");
        assert_eq!(ticks(&[-3.0, 12.0], 3), "-15 0 15");
        assert_eq!(ticks(&[1e-5, 3e-3], 3), "0.0000 0.0015 0.0030");
        assert_eq!(ticks(&[2e-7, 9e-7], 3), "0 5.0e-7 1.0e-6");
    }

    #[test]
    fn one_value_and_none_have_an_axis() {
        assert_eq!(ticks(&[0.5], 3), "0.45 0.50 0.55");
        assert_eq!(ticks(&[], 2), "0 1");
        let ([low, high], _) = axis([0.0].into_iter(), 4);
        assert!(low < 0.0 && 0.0 < high);
    }
}
