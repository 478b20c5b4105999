//! Distributions: random words made into numbers.

use std::f64::consts::TAU;

use crate::base::{DType, Device, Result, Scalar, Shape};
use crate::ir::AluOp;
use crate::tensor::compose::CallSite;
use crate::tensor::random::threefry;
use crate::tensor::sort::order;
use crate::tensor::{Place, Tensor};

/// One draw: a key, and what is to be made with it.
pub(super) struct Draw {
    pub site: CallSite,
    pub key: [u32; 2],
    pub shape: Shape,
    pub place: Place,
}

impl Draw {
    /// Uniform in `[low, high)`.
    pub fn uniform(self, low: f64, high: f64) -> Tensor {
        self.site.build(&[], || {
            let dtype = self.float_type()?;
            let span = high - low;
            let finite = |x: f64| Scalar::Float(x).cast(dtype).as_f64().is_finite();
            if !(span >= 0.0 && [low, high, span].into_iter().all(finite)) {
                let expected =
                    format!("bounds in ascending order, they and their distance finite in {dtype}");
                return Err(self.site.error(expected, format!("{low} and {high}"), &[]));
            }
            let unit = self.unit(dtype);
            if (low, high) == (0.0, 1.0) {
                return Ok(self.site.cast(&unit, dtype));
            }
            let x = self.site.add(self.site.mul(&unit, span), low);
            // The sum may round up to the bound that is not to be reached.
            let below = below(high, dtype).max(Scalar::Float(low).cast(dtype).as_f64());
            Ok(self.site.cast(&self.site.min(&x, below), dtype))
        })
    }

    /// Normal with this mean and standard deviation.
    pub fn normal(self, mean: f64, std: f64) -> Tensor {
        self.site.build(&[], || {
            let dtype = self.float_type()?;
            if std.is_nan() || std < 0.0 {
                return Err(self.site.error("a standard deviation of at least 0", std.to_string(), &[]));
            }
            let mut x = self.gaussian(dtype.compute());
            if (mean, std) != (0.0, 1.0) {
                x = self.site.add(self.site.mul(&x, std), mean);
            }
            Ok(self.site.cast(&x, dtype))
        })
    }

    /// Integers in `low..high`.
    pub fn integers(self, low: i64, high: i64) -> Tensor {
        self.site.build(&[], || {
            let dtype = self.place.dtype_or(DType::I64);
            let (least, most) = exact_range(dtype);
            if !(low < high && least <= low && high - 1 <= most) {
                let expected = format!("a range of at least one number, within {least}..={most}");
                return Err(self.site.error(expected, format!("{low}..{high}"), &[]));
            }
            let Some(count) = high.checked_sub(low) else {
                let found = format!("{low}..{high}");
                return Err(self.site.error("a range of at most 2^63 - 1 numbers", found, &[]));
            };
            let number = self.below(count);
            let number = if low == 0 { number } else { self.site.add(&number, low) };
            Ok(self.site.cast(&number, dtype))
        })
    }

    /// `0..n` in random order: sorted by 64 random bits each, so that ties,
    /// which keep their order, are all but impossible.
    pub fn permutation(self) -> Tensor {
        let dtype = self.place.dtype_or(DType::I64);
        let most = exact_range(dtype).1;
        self.site.build(&[], || {
            if self.shape.numel().saturating_sub(1) as u64 > most as u64 {
                let expected = format!("numbers up to {most}, as {dtype} holds");
                return Err(self.site.error(expected, format!("{} numbers", self.shape.numel()), &[]));
            }
            let bits = self.bits();
            bits.check()?;
            Ok(self.site.cast(&order(self.site, &bits, 0, false), dtype))
        })
    }

    /// 1 with the probability given, else 0.
    pub fn bernoulli(self, probability: &Tensor) -> Tensor {
        self.site.build(&[probability], || {
            let dtype = self.float_type()?;
            let probability = self.site.cast(probability, dtype.compute());
            let hit = self.site.lt(self.unit(dtype.compute()), &probability);
            Ok(self.site.cast(&hit, dtype))
        })
    }

    /// `x` with elements zeroed with probability `p`, the others scaled up.
    pub fn dropout(self, x: &Tensor, p: f64) -> Tensor {
        self.site.build(&[x], || {
            let dtype = self.float_type()?;
            if !(0.0..=1.0).contains(&p) {
                return Err(self.site.error("a probability from 0 to 1", p.to_string(), &[x]));
            }
            if p == 0.0 {
                return Ok(x.clone());
            }
            let (site, compute) = (self.site, dtype.compute());
            let kept = site.lt(self.unit(compute), 1.0 - p);
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            let factor = site.select(&kept, scale, 0.0, compute);
            Ok(site.cast(&site.mul(site.cast(x, compute), &factor), dtype))
        })
    }

    fn device(&self) -> Device {
        self.place.device()
    }

    /// The element type, which must be a floating one.
    fn float_type(&self) -> Result<DType> {
        let dtype = self.place.dtype_or(DType::F32);
        if dtype.is_float() {
            return Ok(dtype);
        }
        Err(self.site.error("a floating-point type", dtype.to_string(), &[]))
    }

    fn words(&self) -> [Tensor; 2] {
        threefry::tensors(self.site, self.key, &self.shape, self.device())
    }

    /// Multiples of 2 to the power of minus the number of digits of `dtype`,
    /// uniform in `[0, 1)`, in the type `dtype` is computed in.
    fn unit(&self, dtype: DType) -> Tensor {
        let digits = digits(dtype);
        let [first, second] = self.words();
        // The upper bits of a word as a fraction, moved down by `to` bits.
        let fraction = |word: &Tensor, bits: u32, to: u32| {
            let shift = self.site.scalar(32 - bits, DType::U32, self.device());
            let upper = self.site.alu(AluOp::Shr, &[word, &shift]);
            let number = self.site.cast(&upper, dtype.compute());
            self.site.mul(&number, (-f64::from(bits + to)).exp2())
        };
        if digits <= 32 {
            return fraction(&first, digits, 0);
        }
        self.site.add(fraction(&first, 27, 0), fraction(&second, digits - 27, 27))
    }

    /// Box and Muller's transform: a radius from one word, an angle from the
    /// other.
    fn gaussian(&self, dtype: DType) -> Tensor {
        let site = self.site;
        let [first, second] = self.words().map(|word| site.cast(&word, dtype));
        // Half a step above a multiple of 2^-32: never 0, whose logarithm is
        // infinite.
        let unit = site.mul(site.add(&first, 0.5), (-32f64).exp2());
        let radius = site.unary(AluOp::Sqrt, &site.mul(site.unary(AluOp::Log, &unit), -2.0));
        let angle = site.mul(&second, TAU * (-32f64).exp2());
        site.mul(&radius, site.unary(AluOp::Cos, &angle))
    }

    /// 64 random bits.
    fn bits(&self) -> Tensor {
        let [first, second] = self.words().map(|word| self.site.cast(&word, DType::I64));
        let upper = self.site.alu(AluOp::Shl, &[&first, &self.long(32)]);
        self.site.alu(AluOp::Or, &[&upper, &second])
    }

    /// Integers in `0..count`.
    fn below(&self, count: i64) -> Tensor {
        let alu = |op, a: &Tensor, b: &Tensor| self.site.alu(op, &[a, b]);
        let count_tensor = self.long(count);
        if count > 1 << 31 {
            let positive = alu(AluOp::And, &self.bits(), &self.long(i64::MAX));
            return alu(AluOp::Rem, &positive, &count_tensor);
        }
        // The upper 32 bits of a 64-bit fraction times the count (Lemire,
        // "Fast random integer generation in an interval", 2019).
        let [first, second] = self.words().map(|word| self.site.cast(&word, DType::I64));
        let half = self.long(32);
        let carry = alu(AluOp::Shr, &alu(AluOp::Mul, &second, &count_tensor), &half);
        let sum = alu(AluOp::Add, &alu(AluOp::Mul, &first, &count_tensor), &carry);
        alu(AluOp::Shr, &sum, &half)
    }

    fn long(&self, number: i64) -> Tensor {
        self.site.scalar(number, DType::I64, self.device())
    }
}

/// Binary digits of a floating type's significand, the implicit one included;
/// 0 for other types.
const fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => 0,
    }
}

/// The least and the greatest integer of the range a type holds exactly.
const fn exact_range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, u8::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::U32 => (0, u32::MAX as i64),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => (-(1 << digits(dtype)), 1 << digits(dtype)),
    }
}

/// The largest number of a floating type below `x`, which is finite.
fn below(x: f64, dtype: DType) -> f64 {
    let rounded = Scalar::Float(x).cast(dtype);
    if rounded.as_f64() < x {
        return rounded.as_f64();
    }
    // Neighbours have neighbouring bits, except across zero.
    let bits = rounded.to_bits(dtype);
    let bits = match rounded.as_f64() {
        number if number > 0.0 => bits - 1,
        number if number < 0.0 => bits + 1,
        _ => 1 << (8 * dtype.size() - 1) | 1,
    };
    Scalar::from_bits(bits, dtype).as_f64()
}
