//! Sines, cosines and tangents of 64-bit floats at any argument.

use crate::base::Device;
use crate::runtime::wgpu::tests::device;
use crate::tensor::Tensor;

/// Units in the last place between two numbers.
fn ulps(found: f64, right: f64) -> f64 {
    let size = right.abs().max(f64::MIN_POSITIVE);
    (found - right).abs() / (f64::from_bits(size.to_bits() + 1) - size)
}

/// Numbers of every magnitude, some next to multiples of a quarter turn.
fn angles() -> Vec<f64> {
    let bounds = [0.0, -1e-300, 0.7, -1e10, 1e17, 1e300, f64::MAX, 1_048_575.9, 1_048_576.0];
    let mut state = 1u64;
    let drawn = (0..9000).map(|i| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fraction = (state >> 11) as f64 / (1u64 << 53) as f64;
        match i % 3 {
            0 => fraction * 2f64.powi((state >> 54) as i32),
            1 => fraction * 3e6,
            _ => (fraction * 3e6).floor() * std::f64::consts::FRAC_PI_2,
        }
    });
    bounds.into_iter().chain(drawn).collect()
}

#[test]
fn trigonometry_of_64_bit_floats_is_right_to_2_ulp_at_any_argument() {
    let Some(backend) = device().filter(|backend| backend.gpu().target.float64) else { return };
    let x = angles();
    let there = Tensor::from_vec(x.clone(), [x.len()], Device::cpu()).to(backend.gpu().name);
    let functions: [(Tensor, fn(f64) -> f64, f64); 3] =
        [(there.sin(), f64::sin, 1.01), (there.cos(), f64::cos, 1.01), (there.tan(), f64::tan, 2.01)];
    for (y, right, most) in functions {
        let y = y.to(Device::cpu()).to_vec::<f64>().expect("values");
        for (&x, &y) in x.iter().zip(&y) {
            assert!(ulps(y, right(x)) <= most, "{y:e} for {:e} at {x:e}", right(x));
        }
    }
    let outside = Tensor::from([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]).to(backend.gpu().name);
    let y = (outside.sin() + outside.cos()).to(Device::cpu()).to_vec::<f64>().expect("values");
    assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
}
