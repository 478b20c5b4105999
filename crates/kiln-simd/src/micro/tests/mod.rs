//! Every loop at every instruction set of the machine, against plain
//! references.

mod alu;
mod dequantize;
mod integer_panels;
mod math;
mod math64;
mod memory;
mod quantized_dot;
mod reduce;
mod scan;
mod scatter;
mod short_rows;
mod winograd;

use crate::micro::LaneType;
use crate::{DType, Scalar};

/// Run lengths around the vector widths and lane counts.
const LENGTHS: [usize; 8] = [0, 1, 7, 63, 64, 65, 130, 255];

/// A small generator (xorshift64*), so that failures repeat.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in 0..1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The type whose memory form is a lane's register form.
fn register_type(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::Bool } else { dtype.compute() }
}

/// Elements in register form, 8-byte aligned with a byte offset for testing
/// addresses that are not multiples of a vector.
struct Register {
    words: Vec<u64>,
    dtype: DType,
}

impl Register {
    fn new(dtype: DType, n: usize) -> Register {
        Register { words: vec![0x7fc1_2345_7fc1_2345; (n + 2) * 2], dtype: register_type(dtype) }
    }

    fn of(dtype: DType, values: &[Scalar]) -> Register {
        let mut register = Register::new(dtype, values.len());
        for (i, &value) in values.iter().enumerate() {
            register.set(i, value);
        }
        register
    }

    fn size(&self) -> usize {
        LaneType::of(self.dtype).size()
    }

    // One element in, so that vectors are never aligned to their width.
    fn ptr(&self) -> *const u8 {
        self.words.as_ptr().cast::<u8>().wrapping_add(self.size())
    }

    fn ptr_mut(&mut self) -> *mut u8 {
        let size = self.size();
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(size)
    }

    fn set(&mut self, i: usize, value: Scalar) {
        let (size, dtype) = (self.size(), self.dtype);
        let start = size * (i + 1);
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[start..start + size]
            .copy_from_slice(&value.to_bits(dtype).to_le_bytes()[..size]);
    }

    fn get(&self, i: usize) -> Scalar {
        let (size, start) = (self.size(), self.size() * (i + 1));
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&bytemuck::cast_slice::<u64, u8>(&self.words)[start..start + size]);
        Scalar::from_bits(u64::from_le_bytes(bytes), self.dtype)
    }
}

/// Whether two scalars are the same value; all NaN are one.
fn equal(a: Scalar, b: Scalar) -> bool {
    a.same(b) || (a.as_f64().is_nan() && b.as_f64().is_nan())
}

/// Values that have gone wrong somewhere before, then random ones.
fn samples(dtype: DType, n: usize, rng: &mut Rng) -> Vec<Scalar> {
    const FLOATS: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-45,
        -1e-40,
        3.4e38,
        -3.4e38,
        0.5,
        -2.5,
        8_388_609.0,
        2e9,
        -7e18,
    ];
    const INTS: [i64; 14] = [
        0,
        1,
        -1,
        2,
        31,
        32,
        63,
        64,
        255,
        i32::MAX as i64,
        i32::MIN as i64,
        u32::MAX as i64,
        i64::MAX,
        i64::MIN,
    ];
    let dtype = register_type(dtype);
    (0..n)
        .map(|_| {
            let pick = rng.next() as usize;
            let value = if dtype.is_float() {
                match pick % 5 {
                    0 => Scalar::Float(FLOATS[(pick >> 8) % FLOATS.len()]),
                    1 => Scalar::Float(((pick >> 8) % 41) as f64 - 20.0),
                    2 => Scalar::Float((rng.unit() - 0.5) * (140.0 * rng.unit() - 60.0).exp2()),
                    _ => Scalar::Float((rng.unit() - 0.5) * (30.0 * rng.unit()).exp2()),
                }
            } else {
                match pick % 3 {
                    0 => Scalar::Int(INTS[(pick >> 8) % INTS.len()]),
                    1 => Scalar::Int((pick >> 8) as i64 % 70 - 3),
                    _ => Scalar::Int(rng.next() as i64),
                }
            };
            value.cast(dtype)
        })
        .collect()
}
