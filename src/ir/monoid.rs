//! The monoid table: what a reduction or scan combines with, one row each.
//!
//! A row is an associative combination of states with an identity, a `lift`
//! from an element into a state and a `finish` from a state to the result.
//! Because combination is associative, split reductions, trees and scans all
//! follow from the row. States are at most three numbers.

use crate::base::{DType, Kind, Scalar};

/// What a reduction or scan combines with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Monoid {
    /// Sum; integers wrap. Empty: 0.
    Sum,
    /// Product; integers wrap. Empty: 1.
    Prod,
    /// Largest element; NaN if any is; on `Bool`, or. Empty: the least value.
    Max,
    /// Smallest element; NaN if any is; on `Bool`, and. Empty: the greatest value.
    Min,
    /// Index of the largest element, the first among equals, the first NaN
    /// if there is one. Reduction only. Empty: 0.
    ArgMax,
    /// Index of the smallest element, the first among equals, the first NaN
    /// if there is one. Reduction only. Empty: 0.
    ArgMin,
    /// Sum of squared deviations from the mean, by merging (count, mean, M2)
    /// states (Welford 1962; Chan, Golub and LeVeque 1983). Reduction only. Empty: 0.
    M2,
    /// Logarithm of the sum of exponentials, by merging (max, scaled sum)
    /// states (Milakov and Gimelshein 2018). Empty: minus infinity.
    LogSumExp,
}

/// A partial result: the components the row needs, the rest 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MonoidState {
    /// An integer value and, for the argument rows, its index.
    Int(i64, i64),
    /// Up to three numbers: value and index; count, mean and M2; max and sum.
    Float(f64, f64, f64),
}

impl Monoid {
    /// Every row.
    pub const ALL: &'static [Monoid] = &[
        Monoid::Sum,
        Monoid::Prod,
        Monoid::Max,
        Monoid::Min,
        Monoid::ArgMax,
        Monoid::ArgMin,
        Monoid::M2,
        Monoid::LogSumExp,
    ];

    /// The row's name, for plans and goldens.
    pub const fn name(self) -> &'static str {
        match self {
            Monoid::Sum => "sum",
            Monoid::Prod => "prod",
            Monoid::Max => "max",
            Monoid::Min => "min",
            Monoid::ArgMax => "argmax",
            Monoid::ArgMin => "argmin",
            Monoid::M2 => "m2",
            Monoid::LogSumExp => "logsumexp",
        }
    }

    /// Whether elements of this kind can be combined.
    pub const fn accepts(self, kind: Kind) -> bool {
        match self {
            Monoid::Sum | Monoid::Prod => !matches!(kind, Kind::Bool),
            Monoid::Max | Monoid::Min | Monoid::ArgMax | Monoid::ArgMin => true,
            Monoid::M2 | Monoid::LogSumExp => matches!(kind, Kind::Float),
        }
    }

    /// Whether a scan may use the row.
    pub const fn scans(self) -> bool {
        match self {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => true,
            Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => false,
        }
    }

    /// The result's type for elements of type `dtype`.
    pub const fn result(self, dtype: DType) -> DType {
        match self {
            Monoid::ArgMax | Monoid::ArgMin => DType::I64,
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::M2 | Monoid::LogSumExp => dtype,
        }
    }

    /// Scalar operations per element, for cost estimates.
    pub const fn flops(self) -> u64 {
        match self {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => 1,
            Monoid::ArgMax | Monoid::ArgMin => 2,
            Monoid::M2 => 5,
            Monoid::LogSumExp => 12,
        }
    }

    /// The state of no elements.
    pub fn identity(self, dtype: DType) -> MonoidState {
        if dtype.is_float() {
            match self {
                Monoid::Sum | Monoid::M2 => MonoidState::Float(0.0, 0.0, 0.0),
                Monoid::Prod => MonoidState::Float(1.0, 0.0, 0.0),
                Monoid::Max | Monoid::LogSumExp => MonoidState::Float(f64::NEG_INFINITY, 0.0, 0.0),
                Monoid::Min => MonoidState::Float(f64::INFINITY, 0.0, 0.0),
                // An index of -1 marks "no element yet".
                Monoid::ArgMax | Monoid::ArgMin => MonoidState::Float(0.0, -1.0, 0.0),
            }
        } else {
            let (least, greatest) = int_range(dtype);
            match self {
                Monoid::Sum | Monoid::M2 | Monoid::LogSumExp => MonoidState::Int(0, 0),
                Monoid::Prod => MonoidState::Int(1, 0),
                Monoid::Max => MonoidState::Int(least, 0),
                Monoid::Min => MonoidState::Int(greatest, 0),
                Monoid::ArgMax | Monoid::ArgMin => MonoidState::Int(0, -1),
            }
        }
    }

    /// The number that changes none it is combined with, of a row whose states are one number.
    pub fn neutral(self, dtype: DType) -> Scalar {
        match self.identity(dtype) {
            MonoidState::Int(value, _) => Scalar::Int(value),
            MonoidState::Float(value, ..) => Scalar::Float(value),
        }
    }

    /// The state of the one element `value` at position `index`.
    pub fn lift_float(self, value: f64, index: usize) -> MonoidState {
        match self {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => MonoidState::Float(value, 0.0, 0.0),
            Monoid::ArgMax | Monoid::ArgMin => MonoidState::Float(value, index as f64, 0.0),
            Monoid::M2 => MonoidState::Float(1.0, value, 0.0),
            Monoid::LogSumExp => MonoidState::Float(value, 1.0, 0.0),
        }
    }

    /// The state of the one integer or truth value at position `index`.
    pub fn lift_int(self, value: i64, index: usize) -> MonoidState {
        MonoidState::Int(value, index as i64)
    }

    /// Two adjacent runs' states into one; `a` comes first.
    pub fn combine(self, a: MonoidState, b: MonoidState) -> MonoidState {
        match (a, b) {
            (MonoidState::Int(x, i), MonoidState::Int(y, j)) => self.combine_int((x, i), (y, j)),
            (MonoidState::Float(..), _) | (_, MonoidState::Float(..)) => {
                let (MonoidState::Float(a0, a1, a2), MonoidState::Float(b0, b1, b2)) = (a, b) else {
                    panic!("states of different kinds");
                };
                self.combine_float([a0, a1, a2], [b0, b1, b2])
            }
        }
    }

    fn combine_int(self, (x, i): (i64, i64), (y, j): (i64, i64)) -> MonoidState {
        match self {
            Monoid::Sum | Monoid::M2 | Monoid::LogSumExp => MonoidState::Int(x.wrapping_add(y), 0),
            Monoid::Prod => MonoidState::Int(x.wrapping_mul(y), 0),
            Monoid::Max => MonoidState::Int(x.max(y), 0),
            Monoid::Min => MonoidState::Int(x.min(y), 0),
            Monoid::ArgMax if i < 0 || (j >= 0 && y > x) => MonoidState::Int(y, j),
            Monoid::ArgMin if i < 0 || (j >= 0 && y < x) => MonoidState::Int(y, j),
            Monoid::ArgMax | Monoid::ArgMin => MonoidState::Int(x, i),
        }
    }

    fn combine_float(self, a: [f64; 3], b: [f64; 3]) -> MonoidState {
        use crate::ir::alu::AluOp;
        match self {
            Monoid::Sum => MonoidState::Float(a[0] + b[0], 0.0, 0.0),
            Monoid::Prod => MonoidState::Float(a[0] * b[0], 0.0, 0.0),
            Monoid::Max => MonoidState::Float(AluOp::Max.eval_float(&[a[0], b[0]]), 0.0, 0.0),
            Monoid::Min => MonoidState::Float(AluOp::Min.eval_float(&[a[0], b[0]]), 0.0, 0.0),
            Monoid::ArgMax => argument(a, b, |x, y| y > x),
            Monoid::ArgMin => argument(a, b, |x, y| y < x),
            Monoid::M2 => merge_moments(a, b),
            Monoid::LogSumExp => merge_logsumexp(a, b),
        }
    }

    /// The result of a float state.
    pub fn finish_float(self, state: MonoidState) -> f64 {
        let (a, b, c) = match state {
            MonoidState::Float(a, b, c) => (a, b, c),
            MonoidState::Int(a, i) => (a as f64, i as f64, 0.0),
        };
        match self {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => a,
            Monoid::ArgMax | Monoid::ArgMin => b.max(0.0),
            Monoid::M2 => c,
            Monoid::LogSumExp if a.is_infinite() => a,
            Monoid::LogSumExp => a + b.ln(),
        }
    }

    /// The result of an integer state, before wrapping to the type's width.
    pub fn finish_int(self, state: MonoidState) -> i64 {
        let (value, index) = match state {
            MonoidState::Int(value, index) => (value, index),
            MonoidState::Float(value, index, _) => (value as i64, index as i64),
        };
        match self {
            Monoid::ArgMax | Monoid::ArgMin => index.max(0),
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::M2 | Monoid::LogSumExp => value,
        }
    }
}

/// The least and greatest value of an integer type or `Bool`.
pub fn int_range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::I64 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => (i64::MIN, i64::MAX),
    }
}

fn argument(a: [f64; 3], b: [f64; 3], better: fn(f64, f64) -> bool) -> MonoidState {
    let take_second = a[1] < 0.0 || (b[1] >= 0.0 && !a[0].is_nan() && (b[0].is_nan() || better(a[0], b[0])));
    let s = if take_second { b } else { a };
    MonoidState::Float(s[0], s[1], 0.0)
}

fn merge_moments(a: [f64; 3], b: [f64; 3]) -> MonoidState {
    if a[0] == 0.0 {
        return MonoidState::Float(b[0], b[1], b[2]);
    }
    if b[0] == 0.0 {
        return MonoidState::Float(a[0], a[1], a[2]);
    }
    let count = a[0] + b[0];
    let delta = b[1] - a[1];
    let mean = a[1] + delta * (b[0] / count);
    MonoidState::Float(count, mean, a[2] + b[2] + delta * delta * (a[0] * b[0] / count))
}

fn merge_logsumexp(a: [f64; 3], b: [f64; 3]) -> MonoidState {
    use crate::ir::alu::AluOp;
    let max = AluOp::Max.eval_float(&[a[0], b[0]]);
    // An infinite maximum is the result by itself; exp(inf - inf) would be NaN.
    let scale = |m: f64| if m == max { 1.0 } else { (m - max).exp() };
    MonoidState::Float(max, a[1] * scale(a[0]) + b[1] * scale(b[0]), 0.0)
}
