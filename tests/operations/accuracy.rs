//! Reductions of long or far-from-zero data are as accurate as pairwise sums, casts round once, and
//! positions go beyond 32 bits, on every device.

use kiln::prelude::*;

fn devices() -> Vec<Device> {
    let all = [Device::cpu(), Device::wgpu(0), Device::cuda(0)];
    all.into_iter().filter(|device| device.name().is_ok()).collect()
}

/// Numbers from `base` to `base + 1`.
fn uniform(count: usize, base: f32) -> Vec<f32> {
    let mut state = 12_345u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(|_| base + next()).collect()
}

/// A matrix as it lies in memory or turned, the exact sum and variance along an axis, and the axis.
struct Case {
    x: Tensor,
    exact: Vec<(f64, f64)>,
    axis: i64,
}

fn cases([rows, columns]: [usize; 2], base: f32, device: Device) -> Vec<Case> {
    let data = uniform(rows * columns, base);
    let leaf = Tensor::from_vec(data.clone(), [rows, columns], device);
    leaf.realize().expect("a leaf");
    let moments = |line: Vec<f64>| {
        let sum: f64 = line.iter().sum();
        let mean = sum / line.len() as f64;
        let squares: f64 = line.iter().map(|x| (x - mean).powi(2)).sum();
        (sum, squares / (line.len() as f64 - 1.0))
    };
    let row = |i: usize| moments((0..columns).map(|j| f64::from(data[i * columns + j])).collect());
    let column = |j: usize| moments((0..rows).map(|i| f64::from(data[i * columns + j])).collect());
    let (along, across) =
        ((0..rows).map(row).collect::<Vec<_>>(), (0..columns).map(column).collect::<Vec<_>>());
    let case = |x: &Tensor, exact: &[(f64, f64)], axis| Case { x: x.clone(), exact: exact.to_vec(), axis };
    let turned = leaf.t();
    vec![case(&leaf, &along, 1), case(&leaf, &across, 0), case(&turned, &along, 0), case(&turned, &across, 1)]
}

/// The distance of an `f32` from the next.
fn ulp(x: f64) -> f64 {
    let bits = (x.abs() as f32).to_bits();
    f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits))
}

#[test]
fn sums_of_many_are_within_8_ulp() -> kiln::Result<()> {
    for device in devices() {
        for (dims, base) in [([70_000, 3], 1e4), ([70_000, 3], 0.0), ([300, 300], 1e4), ([2, 70_000], 1e4)] {
            for case in cases(dims, base, device) {
                for (sum, (exact, _)) in case.x.sum(case.axis).to_vec::<f32>()?.iter().zip(&case.exact) {
                    let error = (f64::from(*sum) - exact).abs() / ulp(*exact);
                    let axis = case.axis;
                    assert!(error <= 8.0, "{dims:?} from {base}, axis {axis} on {device}: {error} ulp");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn variances_far_from_zero_are_those_of_the_deviations() -> kiln::Result<()> {
    for device in devices() {
        for dims in [[8, 100], [8, 4096], [300, 300], [3, 20_000], [2, 7]] {
            for (base, most) in [(0.0, 3e-6), (3e3, 1e-4), (1e6, 1e-4)] {
                for case in cases(dims, base, device) {
                    for (var, (_, exact)) in case.x.var(case.axis).to_vec::<f32>()?.iter().zip(&case.exact) {
                        let error = (f64::from(*var) - exact).abs() / exact.max(f64::MIN_POSITIVE);
                        let axis = case.axis;
                        assert!(error <= most, "{dims:?} from {base}, axis {axis} on {device}: {error:e}");
                    }
                }
            }
        }
    }
    Ok(())
}

/// A layer norm is as exact as the mean rounds: two units of its last place, in deviations of 0.29.
#[test]
fn rows_far_from_zero_are_normalized_about_their_mean() -> kiln::Result<()> {
    for device in devices() {
        // 64 numbers from 1e6 on, added one after the other, lose all below 1. GPUs add as many, the CPU 16.
        let bases: &[f32] = if device == Device::cpu() { &[0.0, 1e4, 1e6] } else { &[0.0, 1e4] };
        for (&base, [rows, n]) in
            bases.iter().flat_map(|b| [[4, 100], [4, 4096], [2, 70_000]].map(|d| (b, d)))
        {
            let data = uniform(rows * n, base);
            let x = Tensor::from_vec(data.clone(), [rows, n], device);
            let y = x.layer_norm([n], kiln::opts::NormOpts::default()).to_vec::<f32>()?;
            for (line, y) in data.chunks(n).zip(y.chunks(n)) {
                let mean = line.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
                let squares = line.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
                let scale = (squares / n as f64 + 1e-5).powf(-0.5);
                let exact = line.iter().map(|&x| (f64::from(x) - mean) * scale);
                let error = exact.zip(y).map(|(exact, &y)| (f64::from(y) - exact).abs()).fold(0.0, f64::max);
                let most = 2.0 * ulp(f64::from(base) + 0.5) / 0.29 + 1e-5;
                assert!(
                    error <= most,
                    "{rows} x {n} from {base} on {device}: off by {error:e}, not {most:e}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn an_outlier_first_leaves_the_variance_exact() -> kiln::Result<()> {
    for device in devices() {
        let mut data = uniform(8 * 64, 1e4);
        data[..8].fill(-3.0);
        let exact = |j: usize| {
            let line: Vec<f64> = (0..64).map(|i| f64::from(data[i * 8 + j])).collect();
            let mean = line.iter().sum::<f64>() / 64.0;
            line.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 63.0
        };
        let x = Tensor::from_vec(data.clone(), [64, 8], device);
        for (j, var) in x.var(0).to_vec::<f32>()?.iter().enumerate() {
            assert!((f64::from(*var) / exact(j) - 1.0).abs() < 1e-5, "{var} on {device}");
        }
    }
    Ok(())
}

#[test]
fn casts_of_64_bit_integers_round_once() -> kiln::Result<()> {
    let x =
        [(1i64 << 54) + (1 << 30) + 1, -(1 << 54) - (1 << 30) - 1, (1 << 62) + (1 << 38) + 1, 7, i64::MIN];
    for device in devices() {
        let t = Tensor::from_vec(x.to_vec(), [5], device);
        t.realize()?;
        assert_eq!(t.to_dtype(DType::F32).to_vec::<f32>()?, x.map(|x| x as f32), "{device}");
        let one = Tensor::full([], x[0], device).to_dtype(DType::F32);
        assert_eq!(one.item::<f32>()?, x[0] as f32, "{device}");
    }
    Ok(())
}

/// 2.2 thousand million elements, which take no memory. Software drivers take minutes for them: of GPUs
/// the types of their kernels are tested.
#[test]
fn positions_beyond_32_bits_are_found() -> kiln::Result<()> {
    let place = Tensor::arange(0, 2_200_000_000i64, 1, Device::cpu()).eq(2_199_999_990i64).argmax(0);
    assert_eq!(place.item::<i64>()?, 2_199_999_990);
    Ok(())
}
