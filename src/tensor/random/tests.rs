//! Random tensors: known answers, distributions, reproducibility, cost.

use super::*;
use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::tensor::testing::{error_text, f32s, tensor, values};

/// Mean and variance.
fn moments(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().expect("values")
}

// From the known answers published with Random123.
const KNOWN: [([u32; 2], [u32; 2], [u32; 2]); 3] = [
    ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
    ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
    ([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3], [0xc492_3a9c, 0x483d_f7a0]),
];

#[test]
fn numbers_match_the_known_answers() {
    for (key, counter, expected) in KNOWN {
        assert_eq!(threefry::numbers(key, counter), expected);
    }
}

#[test]
fn tensors_match_numbers_at_their_positions() {
    for (key, ..) in KNOWN {
        let site = CallSite::here("test");
        let [first, second] = threefry::tensors(site, key, &Shape::from([2, 3]), Device::cpu());
        let by_oracle: Vec<[f64; 2]> =
            values(&first).into_iter().zip(values(&second)).map(|(a, b)| [a, b]).collect();
        let expected: Vec<[u32; 2]> = (0..6).map(|i| threefry::numbers(key, [0, i])).collect();
        assert_eq!(by_oracle, expected.iter().map(|pair| pair.map(f64::from)).collect::<Vec<_>>());
        let computed = [first, second].map(|word| word.to_vec::<u32>().expect("words"));
        for (i, pair) in expected.iter().enumerate() {
            assert_eq!([computed[0][i], computed[1][i]], *pair);
        }
    }
}

#[test]
fn positions_beyond_32_bits_reach_the_upper_word() {
    let mut generator = Generator::new(1);
    let key = generator.clone().key();
    let large = generator.rand([1 << 17, 1 << 16], DType::F32);
    let site = CallSite::here("test");
    let one = site.slice(&site.slice(&large, 0, 65_537, 65_538, 1), 1, 5, 6, 1);
    let expected = threefry::numbers(key, words((65_537 << 16) + 5))[0] >> 8;
    assert_eq!(read(&one), [expected as f32 / (1 << 24) as f32]);
}

#[test]
fn rand_is_uniform_below_one() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = values(&Generator::new(2).rand([100, 200], dtype));
        assert!(x.iter().all(|v| (0.0..1.0).contains(v)), "{dtype}");
        let (mean, variance) = moments(&x);
        let step = if dtype == DType::BF16 { 2f64.powi(-9) } else { 0.0 };
        assert!((mean + step - 0.5).abs() < 0.01 && (variance - 1.0 / 12.0).abs() < 0.003, "{dtype}");
    }
}

#[test]
fn uniform_stays_below_its_upper_bound() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        // So narrow that half of the sums would round up.
        let (low, high) = (1.0, 1.0 + 2.0 * 2f64.powi(-7));
        let x = values(&Generator::new(3).uniform(low, high, 4096, dtype));
        assert!(x.iter().all(|v| (low..high).contains(v)), "{dtype}");
        let x = values(&Generator::new(3).uniform(-3.0, 0.0, 4096, dtype));
        assert!(x.iter().all(|v| (-3.0..0.0).contains(v)), "{dtype}");
        assert!((moments(&x).0 + 1.5).abs() < 0.05);
    }
    assert_eq!(values(&Generator::new(3).uniform(2.0, 2.0, 3, ())), [2.0; 3]);
}

#[test]
fn randn_is_normal() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = values(&Generator::new(4).randn(20_000, dtype));
        let (mean, variance) = moments(&x);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{dtype}: {mean} {variance}");
        // 68.27 % within one deviation, 0.27 % beyond three.
        let share = |limit: f64| x.iter().filter(|v| v.abs() < limit).count() as f64 / x.len() as f64;
        assert!((share(1.0) - 0.6827).abs() < 0.012 && (share(3.0) - 0.9973).abs() < 0.002, "{dtype}");
    }
    let (mean, variance) = moments(&values(&Generator::new(4).normal(5.0, 0.5, 20_000, ())));
    assert!((mean - 5.0).abs() < 0.01 && (variance - 0.25).abs() < 0.01);
}

#[test]
fn neighbours_are_uncorrelated() {
    let x = values(&Generator::new(5).randn(20_000, ()));
    let lag = |n: usize| x.iter().zip(&x[n..]).map(|(a, b)| a * b).sum::<f64>() / x.len() as f64;
    assert!([1, 2, 3, 4, 8, 16].into_iter().all(|n| lag(n).abs() < 0.03));
}

#[test]
fn randint_reaches_every_number_equally() {
    let mut generator = Generator::new(6);
    let mut counts = [0u32; 6];
    for v in values(&generator.randint(-2, 4, 12_000, ())) {
        counts[(v + 2.0) as usize] += 1;
    }
    assert!(counts.iter().all(|&n| (1850..2150).contains(&n)), "{counts:?}");
    assert_eq!(generator.randint(0, 2, 3, DType::Bool).dtype(), DType::Bool);
    let bytes = values(&generator.randint(0, 256, 4096, DType::U8));
    assert!(bytes.contains(&0.0) && bytes.contains(&255.0));
    for (low, high) in [(0, 1 << 31), (-5, (1 << 31) + 7), (-(1 << 61), 1 << 61), (i64::MIN, -1)] {
        let x = generator.randint(low, high, 4096, ()).to_vec::<i64>().expect("values");
        assert!(x.iter().all(|v| (low..high).contains(v)));
        let scaled: Vec<f64> =
            x.iter().map(|&v| (v as f64 - low as f64) / (high as f64 - low as f64)).collect();
        assert!((moments(&scaled).0 - 0.5).abs() < 0.02, "{low}..{high}");
    }
}

#[test]
fn randperm_is_a_permutation() {
    let x = Generator::new(7).randperm(1000, ()).to_vec::<i64>().expect("values");
    let mut sorted = x.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..1000).collect::<Vec<i64>>());
    assert!(x.iter().enumerate().filter(|&(i, &v)| i as i64 == v).count() < 10);
    assert!(Tensor::randperm(0, DType::I32).to_vec::<i32>().expect("none").is_empty());
}

#[test]
fn bernoulli_follows_each_probability() {
    let p = Tensor::full(10_000, 0.3, ());
    let (mean, _) = moments(&values(&Generator::new(8).bernoulli(&p)));
    assert!((mean - 0.3).abs() < 0.02);
    let sure = f32s(&[4], &[0.0, 1.0, -1.0, 2.0]).bernoulli();
    assert_eq!(values(&sure), [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn dropout_keeps_the_mean() {
    let x = Tensor::ones([100, 100], DType::F16);
    let y = Generator::new(9).dropout(&x, 0.2);
    assert_eq!((y.dtype(), y.shape()), (DType::F16, x.shape()));
    let y = values(&y);
    assert!(y.iter().all(|&v| v == 0.0 || v == 1.25));
    assert!((moments(&y).0 - 1.0).abs() < 0.02);
    assert!(values(&x.dropout(1.0)).iter().all(|&v| v == 0.0));
    assert!(values(&x.dropout(0.0)).iter().all(|&v| v == 1.0));
}

#[test]
fn a_seed_repeats_and_draws_differ() {
    manual_seed(42);
    let [a, b] = [Tensor::randn(8, ()), Tensor::randn(8, ())];
    let saved = generator();
    let c = Tensor::randn(8, ());
    manual_seed(42);
    let again = Tensor::randn(8, ());
    assert_eq!(read(&a), read(&again));
    assert_ne!(read(&a), read(&b));
    set_generator(saved.clone());
    assert_eq!(read(&c), read(&Tensor::randn(8, ())));
    assert_eq!((saved.seed(), saved.draws()), (42, 2));
    assert_eq!(Generator::resume(42, 2), saved);
    // Read twice, fused or not, a draw is the same numbers.
    assert_eq!(read(&(&b - &b)), [0.0; 8]);
    assert_ne!(read(&(Tensor::rand(8, ()) - Tensor::rand(8, ()))), [0.0; 8]);
}

#[test]
fn a_split_is_independent_and_reproducible() {
    let mut parent = Generator::new(10);
    let (mut left, mut right) = (parent.split(), parent.split());
    assert_ne!(left, right);
    let [a, b, c] = [&mut left, &mut right, &mut parent].map(|g| read(&g.rand(4, ())));
    assert!(a != b && b != c && a != c);
    assert_eq!(read(&Generator::new(10).split().rand(4, ())), a);
}

#[test]
fn the_device_computes_what_the_oracle_does() {
    let mut generator = Generator::new(11);
    let x = generator.rand([33, 65], ());
    assert_eq!(read(&x), values(&x).iter().map(|&v| v as f32).collect::<Vec<_>>());
    let z = generator.randn([33, 65], ());
    let close = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() <= 2e-6;
    assert!(read(&z).iter().zip(&values(&z)).all(close));
}

#[test]
fn a_draw_is_one_kernel_and_a_new_seed_no_new_plan() {
    let context = Context::new();
    with_context(&context, || {
        for (seed, launched) in [(1, 1), (2, 2), (3, 3)] {
            manual_seed(seed);
            let x = (Tensor::randn([16, 32], ()) * 0.02).to_vec::<f32>();
            x.expect("values");
            let counters = context.counters();
            assert_eq!((counters.plans_built, counters.kernels_launched), (1, launched));
        }
    });
}

#[test]
fn a_draw_has_few_nodes() {
    let x = Tensor::randn([16, 32], ());
    let graph = crate::ir::collect::collect(&[x.node().expect("valid").clone()])
        .expect("nobody computes it")
        .graph()
        .clone();
    assert!(graph.nodes.len() <= 170, "{}", graph.nodes.len());
}

#[test]
fn bad_arguments_are_recorded() {
    let ints = tensor(&[1], DType::I64, &[1.0]);
    for (found, text) in [
        (Tensor::rand(2, DType::I64), "rand: expected a floating-point type, found i64"),
        (Tensor::randn(2, DType::Bool), "randn: expected a floating-point type, found bool"),
        (Tensor::uniform(1.0, 0.0, 2, ()), "ascending order"),
        (Tensor::uniform(0.0, f64::INFINITY, 2, ()), "finite in f32"),
        (Tensor::uniform(0.0, 1e5, 2, DType::F16), "finite in f16"),
        (Tensor::normal(0.0, -1.0, 2, ()), "at least 0, found -1"),
        (Tensor::randint(3, 3, 2, ()), "at least one number"),
        (Tensor::randint(0, 257, 2, DType::U8), "within 0..=255"),
        (Tensor::randint(0, 258, 2, DType::BF16), "within -256..=256"),
        (Tensor::randint(i64::MIN, i64::MAX, 2, ()), "at most 2^63 - 1"),
        (Tensor::randperm(300, DType::U8), "randperm: expected numbers up to 255"),
        (ints.bernoulli(), "bernoulli: expected a floating-point type"),
        (ints.dropout(0.5), "dropout: expected a floating-point type"),
        (f32s(&[1], &[1.0]).dropout(1.5), "from 0 to 1"),
        (ints.rand_like(), "rand_like: expected a floating-point type"),
    ] {
        let error = error_text(&found);
        assert!(error.contains(text) && error.contains("tests.rs"), "{error}");
    }
}

#[test]
fn meta_tensors_of_any_size_are_inferred() {
    let x = Tensor::randn([1 << 20, 1 << 20], (Device::meta(), DType::F32));
    assert_eq!(x.shape()[..], [1 << 20, 1 << 20]);
    x.check().expect("valid");
}
