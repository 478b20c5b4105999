//! The gradient of every differentiable operation: at random points against central differences, at special
//! points against the gradients beside them.
//!
//! A row of a table is a name, which begins with that of the operation, its operands and a call.

mod axes;
#[cfg(feature = "linalg")]
mod complete;
mod elementwise;
mod losses;
mod matrices;
mod movement;
mod products;
mod special;
mod spectra;

use kiln::prelude::*;
use kiln::{GradOpts, grad_with};

/// The shape of an operand, and the interval in which random points of it lie.
pub struct Input {
    shape: &'static [usize],
    low: f64,
    high: f64,
}

pub const fn within(low: f64, high: f64, shape: &'static [usize]) -> Input {
    Input { shape, low, high }
}

pub const fn any(shape: &'static [usize]) -> Input {
    within(-2.0, 2.0, shape)
}

pub const fn positive(shape: &'static [usize]) -> Input {
    within(0.3, 3.0, shape)
}

pub type Function = fn(&[Tensor]) -> Tensor;
pub type Row = (&'static str, &'static [Input], Function);

/// Operations element by element, whose special points form a grid.
const GRIDS: [&[Row]; 3] = [elementwise::ONE, elementwise::TWO, elementwise::THREE];

/// All others.
const WHOLE: &[&[Row]] = &[
    axes::REDUCTIONS,
    axes::SCANS_AND_ORDERS,
    axes::NORMS,
    movement::SHAPES,
    movement::POSITIONS,
    products::PRODUCTS,
    products::CONVOLUTIONS,
    products::WINDOWS,
    losses::LOSSES,
    matrices::SYSTEMS,
    #[cfg(feature = "linalg")]
    matrices::DECOMPOSITIONS,
    spectra::NUMBERS,
    spectra::TRANSFORMS,
];

/// Several results in one.
pub fn all(parts: &[Tensor]) -> Tensor {
    let flat: Vec<Tensor> = parts.iter().map(Tensor::ravel).collect();
    Tensor::cat(&flat, 0)
}

/// Numbers from 0 to 1, the same in each run.
struct Noise(u64);

impl Noise {
    /// Of its own for each name.
    fn of(name: &str) -> Noise {
        Noise(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn within(&mut self, low: f64, high: f64, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        Tensor::from_vec((0..count).map(|_| low + (high - low) * self.next()).collect::<Vec<_>>(), shape, ())
    }

    /// How far each element moves, from -1 to 1.
    fn direction(&mut self, like: &[Tensor]) -> Vec<Tensor> {
        like.iter().map(|x| self.within(-1.0, 1.0, &x.shape())).collect()
    }
}

/// The gradients of a number.
fn slopes(y: &Tensor, x: &[Tensor]) -> Vec<Tensor> {
    grad_with(y, &x.iter().collect::<Vec<_>>(), GradOpts::default().allow_unused(true))
}

fn tracked(x: &[Tensor]) -> Vec<Tensor> {
    x.iter().map(|x| x.detach().with_requires_grad()).collect()
}

fn dot(a: &[Tensor], b: &[Tensor]) -> Tensor {
    a.iter().zip(b).map(|(a, b)| (a * b).sum(..)).reduce(|a, b| a + b).expect("an operand")
}

fn moved(x: &[Tensor], along: &[Tensor], by: f64) -> Vec<Tensor> {
    let moved = x.iter().zip(along).map(|(x, d)| x.detach() + d * by);
    moved.map(|x| x.realize().expect("an operand").clone()).collect()
}

/// How a number changes along a direction, by its gradient and by its values on both sides.
fn compare(x: &[Tensor], along: &[Tensor], f: &dyn Fn(&[Tensor]) -> Tensor) -> Result<(), String> {
    const STEP: f64 = 1e-5;
    let x = tracked(x);
    let value = f(&x);
    if !value.is_tracked() {
        return Err("no gradient".into());
    }
    let slopes = slopes(&value, &x);
    let magnitude = slopes.iter().zip(along).map(|(s, d)| (s * d).abs().sum(..)).reduce(|a, b| a + b);
    let beside = |by: f64| f(&tracked(&moved(&x, along, by)));
    let all = [dot(&slopes, along), magnitude.expect("an operand"), beside(STEP), beside(-STEP), value];
    kiln::realize(&all.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    let [found, magnitude, above, below, value] = all.map(|x| x.item::<f64>().expect("a number"));
    let expected = (above - below) / (2.0 * STEP);
    let near = (found - expected).abs() <= 2e-6 * (magnitude + expected.abs()) + 1e-9 * (1.0 + value.abs());
    if near { Ok(()) } else { Err(format!("{found:e}, by differences {expected:e}")) }
}

/// First and second derivatives at a random point.
fn check(&(name, operands, f): &Row) -> Vec<String> {
    let mut noise = Noise::of(name);
    let x: Vec<Tensor> = operands.iter().map(|o| noise.within(o.low, o.high, o.shape)).collect();
    let weights = noise.within(-1.0, 1.0, &f(&x).shape());
    let (along, other) = (noise.direction(&x), noise.direction(&x));
    let number = |x: &[Tensor]| (f(x) * &weights).sum(..);
    if let Err(problem) = compare(&x, &along, &number) {
        return vec![format!("{name}: the slope is {problem}")];
    }
    let slope = |x: &[Tensor]| dot(&slopes(&number(x), x), &other);
    if !slope(&tracked(&x)).is_tracked() {
        return Vec::new();
    }
    let second = compare(&x, &along, &slope);
    second.err().map(|p| format!("{name}: the second slope is {p}")).into_iter().collect()
}

/// All rows of tables.
fn each(rows: &[&[Row]], check: impl Fn(&Row) -> Vec<String>) {
    let rows: Vec<&Row> = rows.iter().copied().flatten().collect();
    let wrong: Vec<String> = rows.iter().flat_map(|row| check(row)).collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn slopes_are_those_of_differences_element_by_element() {
    each(&GRIDS, check);
}

#[test]
fn slopes_are_those_of_differences() {
    each(WHOLE, check);
}
