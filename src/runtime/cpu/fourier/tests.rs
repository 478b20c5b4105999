//! Transforms of every kind of length, against their definition.

use super::Fourier;
use crate::base::DType;
use kiln_simd::micro::fft::root;

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// Frequency `k` of some numbers, by the definition.
fn frequency(re: &[f64], im: &[f64], k: usize, sign: f64) -> (f64, f64) {
    (0..re.len()).fold((0.0, 0.0), |sum, j| {
        let (cos, sin) = root(j * k % re.len(), re.len());
        let sin = sign * sin;
        (sum.0 + re[j] * cos - im[j] * sin, sum.1 + re[j] * sin + im[j] * cos)
    })
}

fn bytes<T: bytemuck::Pod>(x: &[T]) -> &[u8] {
    bytemuck::cast_slice(x)
}

/// The largest error of some frequencies, in the mean magnitude of all. The definition errs too, by a sum of as
/// many terms as there are points.
fn error(points: usize, rows: usize, inverse: bool, complex: bool, dtype: DType) -> f64 {
    let (re, im) = (noise(rows * points, 1), noise(rows * points, 2));
    let mut to = vec![0.0f64; 2 * rows * points];
    let work = Fourier { points, inverse, complex, dtype }.kernel();
    let count = 1 + usize::from(complex);
    if dtype == DType::F64 {
        let results = &mut [bytemuck::cast_slice_mut(&mut to)];
        work.run_cpu(&[bytes(&re), bytes(&im)][..count], results).unwrap();
    } else {
        let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let mut found = single(&to);
        let results = &mut [bytemuck::cast_slice_mut(&mut found)];
        work.run_cpu(&[bytes(&single(&re)), bytes(&single(&im))][..count], results).unwrap();
        to = found.into_iter().map(f64::from).collect();
    }
    let zero = vec![0.0; points];
    let mut worst = 0.0f64;
    for row in 0..rows {
        let range = row * points..(row + 1) * points;
        let im = if complex { &im[range.clone()] } else { &zero };
        for k in (0..points).step_by(points.div_ceil(80)).chain([points - 1]) {
            let (x, y) = frequency(&re[range.clone()], im, k, if inverse { 1.0 } else { -1.0 });
            let at = 2 * range.start + k;
            worst = worst.max((to[at] - x).hypot(to[at + points] - y));
        }
    }
    worst / (points as f64 / 6.0).sqrt()
}

#[test]
fn every_length_is_transformed() {
    for points in (1..=64).chain([66, 74, 100, 121, 128, 210, 257, 400, 1024, 1009, 2 * 31 * 31]) {
        for (inverse, complex) in [(false, true), (true, true), (false, false)] {
            let double = error(points, 2, inverse, complex, DType::F64);
            assert!(double < 1e-14, "{points}: {double:e}");
            let single = error(points, 2, inverse, complex, DType::F32);
            assert!(single < 2e-6, "{points}: {single:e}");
        }
    }
}

#[test]
fn threads_share_long_rows() {
    for points in [1 << 15, 3 << 14, 40_009] {
        let found = error(points, 1, false, true, DType::F64);
        assert!(found < 2e-13, "{points}: {found:e}");
    }
}
