//! Products of bfloat16 in pairs of depths, against sums in 64 bits.

use half::bf16;

use super::{By, buffer, run};
use crate::base::{DType, Precision, Scalar};
use crate::tensor::Tensor;
use crate::tensor::slicing::r;

/// Numbers that are bfloat16, from a generator of Marsaglia's xorshift kind.
fn numbers(count: usize, mut state: u64, special: &[f32]) -> Vec<f32> {
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 40
    };
    let mut number = |_| match special.get(next() as usize % 40) {
        Some(&x) => x,
        None => bf16::from_f32(next() as f32 / (1 << 23) as f32 - 1.0).to_f32(),
    };
    (0..count).map(&mut number).collect()
}

/// A matrix for each batch, in memory.
fn leaf(values: &[f32], dims: &[usize]) -> Tensor {
    let x = Tensor::from_vec(values.to_vec(), dims, ()).to_dtype(DType::BF16);
    x.realize().expect("a leaf");
    x
}

/// How the operands come to a product of `[batch, m, k]` and `[batch, k, n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    /// Both lie transposed in memory.
    Transposed,
    /// Rows begin at odd places, and are odd numbers of elements apart.
    Odd,
    /// Every second element of a row.
    Apart,
    /// Computed on the way: each is negated.
    Computed,
    /// Moved on the way: padded at the end of the depths.
    Padded,
}

const FORMS: [Form; 6] =
    [Form::Plain, Form::Transposed, Form::Odd, Form::Apart, Form::Computed, Form::Padded];

/// The matrices, which have these values, in a form.
fn operand(form: Form, values: &[f32], [batch, rows, cols]: [usize; 3], depth: usize) -> Tensor {
    let wide = |spread: usize, offset: usize, width: usize| {
        let mut data = vec![f32::NAN; batch * rows * width];
        for i in 0..values.len() {
            data[i / cols * width + i % cols * spread + offset] = values[i];
        }
        leaf(&data, &[batch, rows, width])
    };
    match form {
        Form::Plain => leaf(values, &[batch, rows, cols]),
        Form::Transposed => {
            let transposed = (0..values.len()).map(|i| {
                let (b, r, c) = (i / (rows * cols), i % rows, i / rows % cols);
                values[(b * rows + r) * cols + c]
            });
            leaf(&transposed.collect::<Vec<_>>(), &[batch, cols, rows]).transpose(-2, -1)
        }
        Form::Odd => {
            let width = (cols + 2) | 1;
            wide(1, 1, width).narrow(-1, 1, cols)
        }
        Form::Apart => wide(2, 0, 2 * cols).slice(-1, r(.., ..).step(2)),
        Form::Computed => -leaf(&values.iter().map(|x| -x).collect::<Vec<_>>(), &[batch, rows, cols]),
        Form::Padded => {
            let [rows_after, cols_after] = [0, 1].map(|axis| if axis == depth { 3 } else { 0 });
            leaf(values, &[batch, rows, cols]).pad(&[0, cols_after, 0, rows_after], 0.0)
        }
    }
}

/// What a product of these matrices is, and how large its terms are.
fn sums(a: &[f32], b: &[f32], [batch, m, n, k]: [usize; 4]) -> Vec<(f64, f64)> {
    let element = |i: usize| {
        let (at, row, col) = (i / (m * n), i / n % m, i % n);
        let term = |d: usize| f64::from(a[(at * m + row) * k + d]) * f64::from(b[(at * k + d) * n + col]);
        (0..k).map(term).fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
    };
    (0..batch * m * n).map(element).collect()
}

/// Holds products of every form of operand against sums in 64 bits, with some special
/// numbers among the factors.
fn check(extents: [usize; 4], special: &[f32]) {
    let [batch, m, n, k] = extents;
    let a = numbers(batch * m * k, 0x9e37, special);
    let b = numbers(batch * k * n, 0x79b9, special);
    let want = sums(&a, &b, extents);
    for (i, form) in FORMS.into_iter().enumerate() {
        let other = FORMS[(i + m + k) % FORMS.len()];
        // Padding of one operand must be that of the other.
        let padded = form == Form::Padded || other == Form::Padded;
        let (form, other) = if padded { (Form::Padded, Form::Padded) } else { (form, other) };
        let y = operand(form, &a, [batch, m, k], 1).matmul(&operand(other, &b, [batch, k, n], 0));
        let have = y.to_dtype(DType::F32).to_vec::<f32>().expect("a product");
        for (at, (&have, &(sum, size))) in have.iter().zip(&want).enumerate() {
            let have = f64::from(have);
            let rounding = sum.abs() / 256.0 + size * k as f64 * f64::powi(2.0, -23);
            // Each factor may count as zero if it is subnormal, as may each sum.
            let flushed = f64::from(f32::MIN_POSITIVE) * (3 * k + 1) as f64;
            let near = (have - sum).abs() <= rounding + flushed;
            let same = near || have == sum || have.is_nan() && sum.is_nan();
            assert!(same, "{extents:?} {form:?} {other:?} at {at}: {have} instead of {sum}");
        }
    }
}

/// Odd depths, edges of tiles, vectors, depths that are cut, none at all.
const EXTENTS: [[usize; 4]; 11] = [
    [1, 1, 1, 1],
    [1, 8, 48, 64],
    [1, 9, 49, 33],
    [2, 17, 31, 7],
    [3, 1, 70, 41],
    [2, 70, 1, 40],
    [1, 3, 5, 4999],
    [1, 130, 100, 601],
    [1, 270, 60, 70],
    [1, 4, 4, 0],
    [1, 33, 500, 2],
];

#[test]
fn pairs_add_up() {
    EXTENTS.iter().for_each(|&extents| check(extents, &[]));
}

#[test]
fn pairs_hold_what_is_not_finite() {
    for &extents in &EXTENTS {
        check(extents, &[f32::INFINITY]);
        check(extents, &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0]);
    }
}

#[test]
fn subnormal_factors_count_as_little() {
    let tiny = f32::from_bits(0x0001_0000);
    let largest = f32::from_bits(0x007f_0000);
    EXTENTS.iter().for_each(|&extents| check(extents, &[tiny, -largest, f32::MIN_POSITIVE, 1e-30]));
}

/// What follows a sum, and a sum that is stored as it is.
#[test]
fn pairs_are_rounded_after_what_follows() {
    let (m, n, k) = (37, 65, 129);
    let (a, b) = (numbers(m * k, 1, &[]), numbers(k * n, 2, &[]));
    let bias: Vec<f32> = (0..n).map(|i| i as f32 / 8.0 - 4.0).collect();
    let y = leaf(&a, &[m, k]).matmul(&leaf(&b, &[k, n])) + leaf(&bias, &[n]);
    let have = y.relu().to_dtype(DType::F32).to_vec::<f32>().expect("a product");
    let want = sums(&a, &b, [1, m, n, k]);
    for (i, (have, (sum, size))) in have.into_iter().zip(want).enumerate() {
        let want = (sum + f64::from(bias[i % n])).max(0.0);
        let near = (f64::from(have) - want).abs() <= (want + size) / 128.0;
        assert!(near, "at {i}: {have} instead of {want}");
    }
}

/// Strictly, factors are what they are, however small.
#[test]
fn strict_products_flush_nothing() {
    let leaves = [leaf(&[1.0; 4], &[2, 2]), leaf(&[1.0; 4], &[2, 2])];
    let report = leaves[0].matmul(&leaves[1]).plan().expect("a plan");
    let source = report.kernels[0].source().expect("a text");
    assert!(source.contains("of pairs of bf16"), "{source}");
    let mut kernel = report.kernels[0].work().kernel().expect("a product").clone();
    let contraction = kernel.contraction_mut().expect("a product");
    contraction.precision = Precision::Strict;
    let inputs = [f32::from_bits(0x0001_0000), f32::powi(2.0, 100)]
        .map(|x| buffer(&[Scalar::Float(x.into()); 4], DType::BF16));
    let outcome = run(&kernel, &inputs, By::Device(None));
    let product = 2.0 * f64::powi(2.0, 100 - 133);
    assert!(outcome.outputs[0].iter().all(|x| x.as_f64() == product), "{outcome:?}");
}
