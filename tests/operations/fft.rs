//! Fourier transforms: against `rustfft` in `f64`, and their own laws, on the CPU and on an adapter.

use crate::support::adapter;
use kiln::fft::{FftNorm, FftOpts};
use kiln::prelude::*;
use kiln::{Tensor, grad};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

/// Numbers that look random, between -1 and 1.
fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn complex_noise(n: usize) -> Vec<Complex64> {
    noise(n, 1).into_iter().zip(noise(n, 2)).map(|(re, im)| Complex64::new(re, im)).collect()
}

/// The transform of each row of `n`.
fn reference(x: &[Complex64], n: usize, inverse: bool) -> Vec<Complex64> {
    let mut planner = FftPlanner::new();
    let plan = if inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) };
    let mut x = x.to_vec();
    plan.process(&mut x);
    x
}

/// Rows of `n` numbers on a device.
fn tensor(x: &[Complex64], n: usize, place: impl Into<kiln::tensor::Place> + Copy) -> Complex {
    let part = |part: fn(&Complex64) -> f64| {
        let values: Vec<f64> = x.iter().map(part).collect();
        Tensor::from_vec(values, [x.len() / n, n], place)
    };
    Complex { re: part(|z| z.re), im: part(|z| z.im) }
}

/// The root of the mean square of the error, over that of the values.
fn error(found: &Complex, expected: &[Complex64]) -> f64 {
    let z = Complex { re: found.re.double(), im: found.im.double() };
    let found = z.to_vec::<f64>().unwrap();
    assert_eq!(found.len(), expected.len());
    let square = |differences: f64, (f, e): (&(f64, f64), &Complex64)| {
        differences + (Complex64::new(f.0, f.1) - e).norm_sqr()
    };
    let size: f64 = expected.iter().map(Complex64::norm_sqr).sum();
    (found.iter().zip(expected).fold(0.0, square) / size).sqrt()
}

/// Lengths of every kind: direct, with one and several passes, with large primes.
const LONG: &[usize] = &[96, 100, 127, 128, 131, 262, 400, 1000, 1009, 1024, 2048, 3 * 131, 4096];

#[test]
fn transforms_of_any_length_are_those_of_rustfft() {
    for n in (1..=64).chain(LONG.iter().copied()) {
        let x = complex_noise(n);
        let z = tensor(&x, n, DType::F64);
        let forward = error(&z.fft(Default::default()), &reference(&x, n, false));
        assert!(forward < 1e-14, "{n}: {forward:e}");
        let unscaled = z.ifft(FftOpts::default().norm(FftNorm::Forward));
        let inverse = error(&unscaled, &reference(&x, n, true));
        assert!(inverse < 1e-14, "inverse of {n}: {inverse:e}");
    }
}

/// The root of the mean square of the error in `f32`: of this, and of `rustfft`.
fn single_errors(z: &Complex, x: &[Complex64], n: usize) -> (f64, f64) {
    let expected = reference(x, n, false);
    let mut planner = FftPlanner::<f32>::new();
    let mut single: Vec<rustfft::num_complex::Complex32> =
        x.iter().map(|z| rustfft::num_complex::Complex32::new(z.re as f32, z.im as f32)).collect();
    planner.plan_fft_forward(n).process(&mut single);
    let wide = single.iter().map(|z| Complex64::new(f64::from(z.re), f64::from(z.im))).collect::<Vec<_>>();
    let of = |part: fn(&Complex64) -> f64| {
        Tensor::from_vec(wide.iter().map(part).collect::<Vec<f64>>(), [x.len()], ())
    };
    let theirs = error(&Complex { re: of(|z| z.re), im: of(|z| z.im) }, &expected);
    (error(&z.fft(Default::default()), &expected), theirs)
}

/// Rounded to `f32`, so that only the transform errs.
fn single_noise(n: usize) -> Vec<Complex64> {
    let round = |x: f64| f64::from(x as f32);
    complex_noise(n).into_iter().map(|z| Complex64::new(round(z.re), round(z.im))).collect()
}

fn assert_accurate(device: Device, lengths: &[usize]) {
    for &n in lengths {
        let x = single_noise(n);
        let (own, theirs) = single_errors(&tensor(&x, n, (device, DType::F32)), &x, n);
        assert!(own <= 4.0 * theirs + 1e-8, "{n} on {device}: {own:e}, of rustfft {theirs:e}");
    }
}

#[test]
fn errors_in_single_precision_are_near_those_of_rustfft() {
    assert_accurate(Device::cpu(), &[2, 3, 8, 31, 64, 100, 131, 1000, 1009, 1024, 4096, 1 << 15]);
}

#[test]
fn an_adapter_computes_the_same() {
    let Some(device) = adapter::adapter() else { return };
    assert_accurate(device, &[1, 2, 31, 64, 100, 131, 1024]);
    let x = Tensor::from_vec(noise(3 * 100, 7), [3, 100], DType::F32).to(device);
    let back = x.rfft(Default::default()).irfft(Default::default());
    assert_close(&back, &x.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>(), 1e-6);
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &[f64], bound: f64) {
    let found = found.double().to_vec::<f64>().unwrap();
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= bound, "element {i} is {found}, expected {expected}");
    }
}

#[track_caller]
fn assert_same(found: &Complex, expected: &Complex) {
    for (found, expected) in [(&found.re, &expected.re), (&found.im, &expected.im)] {
        assert_eq!(found.shape(), expected.shape());
        assert_close(found, &expected.to_vec::<f64>().unwrap(), 1e-12);
    }
}

#[test]
fn any_axis_is_cut_or_continued_with_zeros() {
    let z = tensor(&complex_noise(2 * 5 * 6), 60, DType::F64).reshape([2, 5, 6]);
    for n in [3, 5, 7] {
        let at = z.fft(FftOpts::default().axis(1).n(n));
        let resized = match n {
            7 => Complex { re: z.re.pad(&[0, 0, 0, 2], 0.0), im: z.im.pad(&[0, 0, 0, 2], 0.0) },
            n => z.slice(1, ..n as i64),
        };
        assert_same(&at, &resized.transpose(1, 2).fft(Default::default()).transpose(1, 2));
    }
}

#[test]
fn each_norm_divides_as_it_says_and_none_is_lost_both_ways() {
    let z = tensor(&complex_noise(12), 12, DType::F64);
    let plain = z.fft(Default::default());
    for (norm, scale) in
        [(FftNorm::Backward, 1.0), (FftNorm::Forward, 1.0 / 12.0), (FftNorm::Ortho, 12f64.powf(-0.5))]
    {
        let opts = FftOpts::default().norm(norm);
        assert_same(&z.fft(opts.clone()), &(&plain * scale));
        assert_same(&z.fft(opts.clone()).ifft(opts.clone()), &z);
        let x = &z.re;
        assert_close(&x.rfft(opts.clone()).irfft(opts.clone().n(12)), &x.to_vec::<f64>().unwrap(), 1e-12);
        assert_close(&x.ihfft(opts.clone()).hfft(opts.clone().n(12)), &x.to_vec::<f64>().unwrap(), 1e-12);
    }
}

#[test]
fn energy_is_the_same_in_time_and_frequency() {
    let z = tensor(&complex_noise(400), 400, DType::F64);
    let ortho = z.fft(FftOpts::default().norm(FftNorm::Ortho));
    let energy = |z: &Complex| z.abs_squared().sum(..).item::<f64>().unwrap();
    assert!((energy(&ortho) / energy(&z) - 1.0).abs() < 1e-13);
}

#[test]
fn half_a_spectrum_is_the_first_half_and_gives_the_numbers_back() {
    for n in [1, 2, 3, 7, 8, 63, 64, 65, 66, 100, 101, 262, 1024] {
        let x = Tensor::from_vec(noise(2 * n, 3), [2, n], ());
        let half = x.rfft(Default::default());
        assert_same(&half, &x.fft(Default::default()).slice(1, ..(n / 2 + 1) as i64));
        let back = half.irfft(FftOpts::default().n(n));
        assert_close(&back, &x.to_vec::<f64>().unwrap(), 1e-13);
        // The imaginary parts that those of real numbers lack do not count.
        let z = tensor(&complex_noise(n / 2 + 1), n / 2 + 1, DType::F64);
        let zero = |z: &Complex, at: i64| z.im.select_scatter(&Tensor::zeros([1], DType::F64), 1, at);
        let mut ends = Complex { re: z.re.clone(), im: zero(&z, 0) };
        if n % 2 == 0 {
            ends.im = zero(&ends, -1);
        }
        let opts = FftOpts::default().n(n);
        assert_close(&z.irfft(opts.clone()), &ends.irfft(opts).to_vec::<f64>().unwrap(), 1e-12);
    }
}

#[test]
fn several_axes_are_transformed_one_after_another() {
    use kiln::fft::FftnOpts;
    let z = tensor(&complex_noise(3 * 4 * 5), 60, DType::F64).reshape([3, 4, 5]);
    let along = |z: &Complex, axis: i64| z.fft(FftOpts::default().axis(axis));
    assert_same(&z.fftn(Default::default()), &along(&along(&along(&z, 0), 1), 2));
    assert_same(&z.fft2(Default::default()), &along(&along(&z, 1), 2));
    assert_same(&z.fftn(FftnOpts::default().axes([0, -1])), &along(&along(&z, 0), 2));
    let sizes = FftnOpts::default().sizes([2, 6]);
    let cut = |z: &Complex| z.fft(FftOpts::default().axis(2).n(6)).fft(FftOpts::default().axis(1).n(2));
    assert_same(&z.fftn(sizes), &cut(&z));
    assert_same(&z.fft2(Default::default()).ifft2(Default::default()), &z);
    let x = &z.re;
    let half = x.rfftn(Default::default());
    assert_same(&half, &x.fftn(Default::default()).slice(2, ..3));
    let back = half.irfftn(FftnOpts::default().sizes([3, 4, 5]));
    assert_close(&back, &x.to_vec::<f64>().unwrap(), 1e-13);
}

/// A number that depends on each element in its own way, not linearly.
fn weighed(z: &Complex) -> Tensor {
    let weights =
        |seed| Tensor::from_vec(noise(z.shape().numel(), seed), z.shape(), z.re.device()).to_dtype(z.dtype());
    let linear = (&z.re * weights(11)).sum(..) + (&z.im * weights(12)).sum(..);
    linear + (z.abs_squared() * weights(13)).sum(..)
}

/// First and second derivatives against central differences.
#[track_caller]
fn assert_gradients(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) {
    let slope = |x: &Tensor| {
        let x = x.clone().with_requires_grad();
        grad(&f(&x), &[&x]).remove(0)
    };
    let curve = |x: &Tensor| {
        let x = x.clone().with_requires_grad();
        let first = grad(&f(&x), &[&x]).remove(0);
        grad(&(first.square()).sum(..), &[&x]).remove(0)
    };
    let values = x.to_vec::<f64>().unwrap();
    let moved = |i: usize, by: f64| {
        let mut values = values.clone();
        values[i] += by;
        Tensor::from_vec(values, x.shape(), ())
    };
    let step = 1e-4;
    let (slopes, curves) = (slope(x).to_vec::<f64>().unwrap(), curve(x).to_vec::<f64>().unwrap());
    for i in [0, 1, x.numel() / 2, x.numel() - 1] {
        let difference =
            |g: &dyn Fn(&Tensor) -> f64| (g(&moved(i, step)) - g(&moved(i, -step))) / (2.0 * step);
        let first = difference(&|x| f(x).item::<f64>().unwrap());
        assert!((slopes[i] - first).abs() <= 1e-6 * (1.0 + first.abs()), "{i}: {} and {first}", slopes[i]);
        let second = difference(&|x| slope(x).square().sum(..).item::<f64>().unwrap());
        assert!((curves[i] - second).abs() <= 1e-6 * (1.0 + second.abs()), "{i}: {} and {second}", curves[i]);
    }
}

#[test]
fn gradients_are_those_of_differences() {
    let x = Tensor::from_vec(noise(2 * 12, 5), [2, 12], ());
    let longer = FftOpts::default().n(80);
    assert_gradients(&x, |x| weighed(&x.fft(Default::default())));
    assert_gradients(&x, |x| weighed(&Complex { re: x.clone(), im: x.square() }.ifft(Default::default())));
    assert_gradients(&x, |x| weighed(&x.fft(longer.clone())));
    assert_gradients(&x, |x| weighed(&x.rfft(longer.clone())));
    assert_gradients(&x, |x| weighed(&x.fft(FftOpts::default().n(131))));
    let real = |x: Tensor| weighed(&Complex::from_real(&x));
    assert_gradients(&x, |x| real(Complex { re: x.clone(), im: x.square() }.irfft(Default::default())));
    assert_gradients(&x, |x| real(Complex { re: x.clone(), im: x.square() }.irfft(longer.clone())));
    assert_gradients(&x, |x| real(Complex { re: x.clone(), im: x.square() }.hfft(FftOpts::default().n(21))));
}

#[test]
fn half_precision_is_computed_in_single() {
    let x = Tensor::from_vec(noise(64, 9), [64], DType::F16);
    let z = x.fft(Default::default());
    assert_eq!(z.dtype(), DType::F16);
    let expected = x.float().fft(Default::default()).re.half();
    assert_eq!(z.re.to_vec::<half::f16>().unwrap(), expected.to_vec::<half::f16>().unwrap());
}

#[test]
fn a_long_transform_is_few_kernels() {
    let z = Complex::from_real(&Tensor::empty([1 << 20], Device::null())).fft(Default::default());
    let plan = kiln::plan(&[&z.re, &z.im]).unwrap();
    assert!(plan.kernels.len() <= 9, "{plan}");
}

/// The transform of one frame, by its definition.
fn frame(x: &[f64], window: &[f64], k: usize) -> Complex64 {
    let n = window.len();
    let term = |j: usize| {
        Complex64::from_polar(x[j] * window[j], -std::f64::consts::TAU * (j * k % n) as f64 / n as f64)
    };
    (0..n).map(term).sum()
}

#[test]
fn frames_are_transformed_as_defined() {
    use kiln::fft::{StftOpts, Window};
    let (x, n_fft, hop) = (noise(60, 4), 16, 5);
    // Twelve points in the middle of the frame.
    let window = Window::Hann.periodic(12, DType::F64);
    let mut whole = vec![0.0; 16];
    whole[2..14].copy_from_slice(&window.to_vec::<f64>().unwrap());
    let signal = Tensor::from_vec(x.clone(), [60], ());
    let opts = StftOpts::default().window(&window).hop(hop);
    let z = signal.stft(n_fft, opts.clone());
    let mirrored = |i: i64| {
        x[(if i < 0 {
            -i
        } else if i > 59 {
            118 - i
        } else {
            i
        }) as usize]
    };
    let padded: Vec<f64> = (-8..68).map(mirrored).collect();
    assert_eq!(z.shape()[..], [9, 13]);
    let expected: Vec<Complex64> = (0..9)
        .flat_map(|k| (0..13).map(move |t| (k, t)))
        .map(|(k, t)| frame(&padded[t * hop..], &whole, k))
        .collect();
    assert!(error(&z, &expected) < 1e-14);
    // Both halves, scaled, without margins.
    let plain = signal.stft(n_fft, opts.clone().center(false).onesided(false).normalized(true));
    assert_eq!(plain.shape()[..], [16, 9]);
    let expected: Vec<Complex64> = (0..16)
        .flat_map(|k| (0..9).map(move |t| (k, t)))
        .map(|(k, t)| frame(&x[t * hop..], &whole, k) / 4.0)
        .collect();
    assert!(error(&plain, &expected) < 1e-14);
}

#[test]
fn the_signal_comes_back_from_its_frames() {
    use kiln::fft::{StftOpts, Window};
    let x = Tensor::from_vec(noise(3 * 100, 6), [3, 100], ());
    let expected = x.to_vec::<f64>().unwrap();
    let hann = Window::Hann.periodic(16, DType::F64);
    let opts = StftOpts::default().window(&hann).length(100);
    for opts in
        [opts.clone(), opts.clone().hop(8), opts.clone().normalized(true), opts.clone().onesided(false)]
    {
        assert_close(&x.stft(16, opts.clone()).istft(16, opts), &expected, 1e-13);
    }
    // What frames do not reach is 0: twelve times eight samples.
    let opts = StftOpts::default().hop(8).length(100);
    let back = x.stft(8, opts.clone().center(false)).istft(8, opts.center(false));
    let reached: Vec<f64> =
        expected.iter().enumerate().map(|(i, x)| if i % 100 < 96 { *x } else { 0.0 }).collect();
    assert_close(&back, &reached, 1e-13);
    let signal = x.slice(1, ..40).slice(0, ..1).reshape([40]);
    let opts = StftOpts::default().window(&hann).hop(6);
    assert_gradients(&signal, |x| weighed(&x.stft(16, opts.clone())));
    let back = |x: &Tensor| {
        Complex::from_real(&(x.stft(16, opts.clone()) * x.slice(0, ..9).unsqueeze(1)).istft(16, opts.clone()))
    };
    assert_gradients(&signal, |x| weighed(&back(x)));
}

#[test]
fn windows_have_the_values_of_pytorch() {
    use kiln::fft::Window;
    let close = |w: Tensor, expected: &[f64]| assert_close(&w, expected, 1e-7);
    let f64s = DType::F64;
    close(Window::Hann.periodic(5, f64s), &[0.0, 0.3454915, 0.9045085, 0.9045085, 0.3454915]);
    close(Window::Hamming.symmetric(5, f64s), &[0.08, 0.54, 1.0, 0.54, 0.08]);
    close(Window::Blackman.periodic(4, f64s), &[0.0, 0.34, 1.0, 0.34]);
    close(Window::Bartlett.periodic(4, f64s), &[0.0, 0.5, 1.0, 0.5]);
    close(Window::Cosine.symmetric(4, f64s), &[0.3826834, 0.9238795, 0.9238795, 0.3826834]);
    close(Window::Gaussian { std: 1.0 }.symmetric(3, f64s), &[0.6065307, 1.0, 0.6065307]);
    close(Window::Nuttall.symmetric(3, f64s), &[0.0003628, 1.0, 0.0003628]);
    // 1 / I0(12) at the ends.
    close(Window::Kaiser { beta: 12.0 }.symmetric(3, f64s), &[5.277e-5, 1.0, 5.277e-5]);
    close(Window::Hann.periodic(1, f64s), &[1.0]);
    close(Window::Hann.symmetric(0, f64s), &[]);
}

#[test]
fn bands_are_even_in_mels() {
    use kiln::fft::{MelOpts, MelScale, mel_filters};
    for scale in [MelScale::Htk, MelScale::Slaney] {
        let opts = MelOpts::default().scale(scale);
        let bands = mel_filters(513, 40, 16_000.0, opts.clone(), DType::F64);
        let peak = bands.argmax(0).to_vec::<i64>().unwrap();
        for (mel, bin) in peak.into_iter().enumerate() {
            let step = scale.mels(8000.0) / 41.0;
            let expected = scale.hertz(step * (mel + 1) as f64);
            assert!((bin as f64 * 15.625 - expected).abs() < 15.625, "{scale:?} {mel}: {bin}");
        }
        // Triangles overlap so that between the outer peaks they sum to 1; of equal area, each has 1.
        let (low, high) =
            (scale.hertz(scale.mels(8000.0) / 41.0), scale.hertz(scale.mels(8000.0) * 40.0 / 41.0));
        let inside = ((low / 15.625).ceil() as i64, (high / 15.625).floor() as i64);
        let sums = bands.slice(0, inside.0..inside.1).sum(1).to_vec::<f64>().unwrap();
        assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-12));
        let wide = mel_filters(8193, 10, 16_000.0, opts.equal_area(true), DType::F64);
        let areas = (wide.sum(0) * (8000.0 / 8192.0)).to_vec::<f64>().unwrap();
        assert!(areas.iter().all(|area| (area - 1.0).abs() < 1e-3), "{areas:?}");
    }
}

#[test]
fn complex_numbers_compute_like_those_of_the_host() {
    let (a, b) = (complex_noise(6), complex_noise(12)[6..].to_vec());
    let (x, y) = (tensor(&a, 6, DType::F64), tensor(&b, 6, DType::F64));
    let check = |found: Complex, expected: fn(Complex64, Complex64) -> Complex64| {
        let expected: Vec<Complex64> = a.iter().zip(&b).map(|(&a, &b)| expected(a, b)).collect();
        assert!(error(&found, &expected) < 1e-15);
    };
    check(&x + &y, |a, b| a + b);
    check(&x - &y, |a, b| a - b);
    check(&x * &y, |a, b| a * b);
    check(&x / &y, |a, b| a / b);
    check(2.0 / &x - &y.re, |a, b| 2.0 / a - b.re);
    check(&y.im - &x * 3, |a, b| b.im - a * 3.0);
    check(-&x + &y.re * &y / 2.0, |a, b| -a + b.re * b / 2.0);
    check(x.exp(), |a, _| a.exp());
    check(Complex::polar(&x.abs(), &x.angle()), |a, _| a);
    check(x.conj(), |a, _| a.conj());
    check(Complex::from_pairs(&x.to_pairs()), |a, _| a);
    let matrix = x.reshape([2, 3]).matmul(&y.reshape([3, 2]));
    let entry = |i: usize, j: usize| (0..3).map(|k| a[3 * i + k] * b[2 * k + j]).sum();
    assert!(error(&matrix, &[entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]) < 1e-15);
    let huge = Complex::new(&Tensor::from([1e30f32]), &Tensor::from([-1e30f32]));
    assert_eq!((&huge / &huge).to_vec::<f32>().unwrap(), [(1.0, 0.0)]);
    assert_gradients(&x.re, |re| weighed(&(&y / Complex::new(re, &x.im))));
    assert_gradients(&x.re, |re| weighed(&(Complex::new(re, &x.im) * &y).exp()));
}
