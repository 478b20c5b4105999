//! Gradients at zeros, ties, kinks and the ends of the type's range: no NaN where the function is finite on
//! both sides, and where the gradients beside a point have limits, between these.

use kiln::prelude::*;

use super::{Function, GRIDS, Noise, Row, WHOLE, each, moved, slopes, tracked};

const INF: f64 = f64::INFINITY;

/// Where elementwise operations have zeros, kinks, ties and ends.
const VALUES: [f64; 24] = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 20.0, -20.0, 700.0, -700.0, 1e10,
    -1e10, 1e-160, -1e-160, 1e160, -1e160, INF, -INF,
];

/// How far beside a point its limits are sought.
const STEPS: [f64; 2] = [1e-7, 1e-9];

fn values_of(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().expect("values")
}

/// The value and each operand's gradient of the sum.
fn at(f: Function, x: &[Tensor]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let x = tracked(x);
    let y = f(&x);
    let slopes = slopes(&(&y * Noise(1).within(0.5, 1.0, &y.shape())).sum(..), &x);
    let all: Vec<&Tensor> = [&y].into_iter().chain(&slopes).collect();
    kiln::realize(&all).expect("values");
    (values_of(&y), slopes.iter().map(values_of).collect())
}

/// Where the slope is not between those beside the point, as in PyTorch; and why.
const CONVENTIONS: &[(&str, fn(&[f64]) -> bool)] = &[
    // What an infinity is replaced by does not depend on it.
    ("nan_to_num", |x| x[0].is_infinite()),
    // The logarithm of a negative base is no number, whatever the exponents beside.
    ("pow", |x| x[0] < 0.0),
];

/// Operations that have no slope at ties, as in PyTorch.
const NOT_SMOOTH: [&str; 2] = [
    // Which elements are equal decides, not how large they are.
    "mode", // A column that depends on those before it has two directions.
    "qr",
];

/// The gradients of one element at a point and beside it, in several directions at distances that shrink.
struct Beside {
    found: f64,
    sides: Vec<Vec<f64>>,
}

impl Beside {
    /// The least and greatest of the limits, if there are any.
    fn limits(&self) -> Option<(f64, f64)> {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b.abs() + 1e-5;
        let has_limit =
            |side: &Vec<f64>| side.iter().all(|&far| close(far, side[side.len() - 1]) && far.is_finite());
        let near = || self.sides.iter().map(|side| side[side.len() - 1]);
        let limits = (near().fold(INF, f64::min), near().fold(-INF, f64::max));
        self.sides.iter().all(has_limit).then_some(limits)
    }

    fn is_steep(&self) -> bool {
        const MOST: f64 = 1e4;
        self.sides.iter().flatten().any(|side| side.abs() > MOST)
    }

    fn is_smooth(&self) -> bool {
        self.limits().is_some_and(|(low, high)| high - low <= 1e-4 * low.abs() + 1e-5)
    }

    /// What is wrong with the gradient of a function that is finite at the point and beside it.
    fn problem(&self, between: bool) -> Option<String> {
        let Some((low, high)) = self.limits() else {
            return self.found.is_nan().then(|| "NaN".into());
        };
        let slack = 1e-3 * low.abs().max(high.abs()) + 1e-4;
        let wrong = between && !(low - slack..=high + slack).contains(&self.found);
        (wrong || !self.found.is_finite())
            .then(|| format!("{:e}, beside it from {low:e} to {high:e}", self.found))
    }
}

/// Points beside `x` in a direction: infinities are approached from large numbers.
fn beside(x: &Tensor, direction: &Tensor, step: f64) -> Tensor {
    let (far, least): (f64, f64) = if step == STEPS[0] { (1e200, 1e-170) } else { (1e250, 1e-180) };
    let side = |(x, d): (f64, f64)| match x.is_infinite() {
        true => far.copysign(x),
        false if x == 0.0 => d * least,
        false => x + d * step * x.abs(),
    };
    let moved: Vec<f64> = values_of(x).into_iter().zip(values_of(direction)).map(side).collect();
    Tensor::from_vec(moved, x.shape(), ())
}

/// The gradients of each operand's elements at points and, in each direction, beside them: of those elements
/// where the function is finite.
fn gradients(
    f: Function,
    x: &[Tensor],
    sides: &[Vec<Vec<Tensor>>],
    finite: impl Fn(&[f64], usize) -> bool,
) -> Vec<(usize, usize, Beside)> {
    let (value, found) = at(f, x);
    let sides: Vec<Vec<_>> = sides.iter().map(|side| side.iter().map(|x| at(f, x)).collect()).collect();
    let values = || [&value].into_iter().chain(sides.iter().flatten().map(|(value, _)| value));
    let mut all = Vec::new();
    for (k, found) in found.iter().enumerate() {
        let known = |i: usize| values().all(|y| y.len() == value.len() && finite(y, i));
        for (i, &found) in found.iter().enumerate().filter(|&(i, _)| known(i)) {
            let sides =
                sides.iter().map(|side| side.iter().map(|(_, slopes)| slopes[k][i]).collect()).collect();
            all.push((k, i, Beside { found, sides }));
        }
    }
    all
}

fn full(value: f64, x: &[Tensor]) -> Vec<Tensor> {
    x.iter().map(|x| x.full_like(value)).collect()
}

/// At each combination of special values.
fn on_grid(&(name, operands, f): &Row) -> Vec<String> {
    let values: &[f64] = if operands.len() > 2 { &VALUES[..8] } else { &VALUES };
    let n = values.len();
    let count = n.pow(operands.len() as u32);
    let operand = |k: usize| {
        let value = |i: usize| values[i / n.pow(k as u32) % n];
        Tensor::from_vec((0..count).map(value).collect::<Vec<_>>(), [count], ())
    };
    let x: Vec<Tensor> = (0..operands.len()).map(operand).collect();
    let corner = |bits: usize| {
        let sign = |k: usize| if bits >> k & 1 == 0 { 1.0 } else { -0.7 };
        x.iter().enumerate().map(|(k, x)| x.full_like(sign(k))).collect()
    };
    let side = |bits: usize| {
        let direction: Vec<Tensor> = corner(bits);
        STEPS.map(|step| x.iter().zip(&direction).map(|(x, d)| beside(x, d, step)).collect()).to_vec()
    };
    let sides: Vec<Vec<Vec<Tensor>>> = (0..1 << operands.len()).map(side).collect();
    let conventional =
        |at: &[f64]| CONVENTIONS.iter().any(|(start, holds)| name.starts_with(start) && holds(at));
    let problem = |(k, i, beside): (usize, usize, Beside)| {
        let at: Vec<f64> = x.iter().map(|x| values_of(x)[i]).collect();
        let problem = beside.problem(true).filter(|_| !conventional(&at))?;
        Some(format!("{name}, operand {k} at {at:?}: {problem}"))
    };
    gradients(f, &x, &sides, |y, i| y[i].is_finite()).into_iter().filter_map(problem).collect()
}

/// Where all elements are equal, and where some are.
fn at_ties(&(name, operands, f): &Row) -> Vec<String> {
    const DIRECTIONS: usize = 2;
    let mut noise = Noise::of(name);
    let random: Vec<Tensor> = operands.iter().map(|o| noise.within(o.low, o.high, o.shape)).collect();
    let some_zero: Vec<Tensor> = random.iter().map(|x| x * x.gt(x.mean(..)).to_dtype(x.dtype())).collect();
    let rounded: Vec<Tensor> = random.iter().map(Tensor::round).collect();
    let points = [full(0.0, &random), full(1.0, &random), some_zero, rounded];
    let mut wrong = Vec::new();
    for (point, x) in ["zeros", "ones", "some zeros", "ties"].iter().zip(points) {
        let x: Vec<Tensor> = moved(&x, &x, 0.0);
        let along: Vec<_> = (0..DIRECTIONS).map(|_| noise.direction(&x)).collect();
        let both = along.iter().flat_map(|d| [1e-7, -1e-7].map(|by| vec![moved(&x, d, by)]));
        let found = gradients(f, &x, &both.collect::<Vec<_>>(), |y, _| y.iter().all(|y| y.is_finite()));
        if found.iter().any(|(_, _, beside)| beside.is_steep()) {
            continue; // a pole, or a step
        }
        // With ties, a few directions do not show all limits.
        let smooth = found.iter().all(|(_, _, beside)| beside.is_smooth());
        let problems = found.iter().filter_map(|(k, i, beside)| Some((k, i, beside.problem(smooth)?)));
        wrong.extend(
            problems.take(1).map(|(k, i, p)| format!("{name}, operand {k}, element {i} at {point}: {p}")),
        );
    }
    wrong
}

#[test]
fn elementwise_slopes_are_between_those_beside_a_point() {
    each(&GRIDS, on_grid);
}

#[test]
fn slopes_are_between_those_beside_a_point() {
    let smooth = |name: &str| !NOT_SMOOTH.iter().any(|start| name.starts_with(start));
    each(WHOLE, |row| if smooth(row.0) { at_ties(row) } else { Vec::new() });
}
