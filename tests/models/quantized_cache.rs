//! Caches that keep keys and values as codes of 8 bits.

use kiln::nn::{AttentionInput, AttentionLayerOpts, KvCache, MultiheadAttention};
use kiln::prelude::*;
use kiln::{Context, with_context};

/// Every device at hand.
fn devices() -> Vec<Device> {
    let wgpu = Device::wgpu(0);
    [Device::cpu()].into_iter().chain(wgpu.name().is_ok().then_some(wgpu)).collect()
}

/// Rows of `[1, 2, positions, 8]`, each of another magnitude, the first of them zeros.
fn rows(positions: usize, device: Device) -> Tensor {
    let magnitudes = Tensor::arange(0.0f32, positions as f64, 1.0, device).reshape([positions, 1]);
    let x = Tensor::randn([1, 2, positions, 8], device) * magnitudes;
    x.realize().expect("random numbers");
    x
}

fn host(x: &Tensor) -> Vec<f32> {
    x.to(Device::cpu()).to_vec::<f32>().expect("numbers")
}

/// Whether rows of 8 are those that were kept, within half a step of 1/127 of their largest, and what their
/// type rounds off.
fn assert_kept(read: &Tensor, kept: &Tensor, what: &str) {
    let rounding = match kept.dtype() {
        DType::BF16 => 1.0 / 256.0,
        DType::F16 => 1.0 / 2048.0,
        _ => 1e-6,
    };
    let (read, kept) = (host(&read.float()), host(&kept.float()));
    assert_eq!(read.len(), kept.len(), "{what}");
    for (row, (read, kept)) in read.chunks(8).zip(kept.chunks(8)).enumerate() {
        let most = kept.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        for (read, kept) in read.iter().zip(kept) {
            assert!(
                (read - kept).abs() <= most * (1.0 / 254.0 + rounding),
                "{what}, row {row}: {read} for {kept}"
            );
        }
    }
}

/// What a cache holds.
fn held(cache: &KvCache, device: Device) -> Tensor {
    let one = Tensor::ones([1, 2, 1, 8], device);
    cache.fork().append(&one, &one).expect("room").keys.narrow(2, 0, cache.len())
}

#[test]
fn codes_are_within_half_a_step_of_what_was_appended() {
    kiln::manual_seed(1);
    for device in devices() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let cache = KvCache::new([1, 2, 70, 8], (device, DType::U8));
            let (keys, values) = (rows(6, device).to_dtype(dtype), rows(6, device).to_dtype(dtype));
            let read = [(0, 4), (4, 6)].map(|(from, to)| {
                cache.append(&keys.i((.., .., r(from, to))), &values.i((.., .., r(from, to)))).expect("room")
            });
            let last = &read[1];
            assert_eq!((last.keys.dtype(), last.values.dtype()), (dtype, dtype));
            let slack = |x: &Tensor| x.narrow(2, 0, 6);
            assert_kept(&slack(&last.keys), &keys, &format!("{device} {dtype} keys"));
            assert_kept(&slack(&last.values), &values, &format!("{device} {dtype} values"));
            // Zeros stay zeros: a scale of 0 divides nothing.
            assert!(host(&last.keys.i((0, 0, 0)).float()).iter().all(|&x| x == 0.0), "{device} {dtype}");
        }
    }
    // A row with a NaN does not pass for numbers.
    let cache = KvCache::new([1, 1, 4, 2], DType::U8);
    let wrong = Tensor::from([1.0, f32::NAN]).reshape([1, 1, 1, 2]);
    let read = host(&cache.append(&wrong, &wrong).expect("room").keys.i((0, 0, 0)));
    assert!(read.iter().all(|x| x.is_nan()), "{read:?}");
}

#[test]
fn attention_over_codes_is_near_that_over_numbers() {
    kiln::manual_seed(2);
    let _no_grad = kiln::no_grad();
    for device in devices() {
        let opts = AttentionLayerOpts::default().causal(true).rotary(1e4).kv_heads(2);
        let layer = MultiheadAttention::new(32, 4, opts, device);
        let x = Tensor::randn([2, 9, 32], device);
        let whole = host(&layer.attend(&x, AttentionInput::default()));
        let cache = layer.cache(2, 80).to_dtype(DType::U8);
        let steps = [(0, 7), (7, 8), (8, 9)].map(|(from, to)| {
            let y = layer.attend_cached(&x.i((.., r(from, to))), &cache);
            y.realize().expect("a step");
            y
        });
        let found = host(&Tensor::cat(&steps, 1));
        for (i, (whole, found)) in whole.iter().zip(&found).enumerate() {
            assert!((whole - found).abs() <= 0.01, "{device}, {i}: {found} for {whole}");
        }
    }
}

#[test]
fn caches_of_codes_rewind_fork_clear_and_convert() {
    kiln::manual_seed(3);
    for device in devices() {
        let (a, b) = (rows(5, device), rows(2, device));
        let cache = KvCache::new([1, 2, 8, 8], (device, DType::U8));
        cache.append(&a, &a).expect("room");
        let other = cache.fork();
        cache.truncate(3);
        cache.append(&b, &b).expect("room");
        other.append(&b, &b).expect("room");
        assert_eq!((cache.len(), other.len(), cache.capacity()), (5, 7, 8));
        let with_b = |n: usize| Tensor::cat(&[&a.narrow(2, 0, n), &b], 2);
        assert_kept(&held(&cache, device), &with_b(3), &format!("{device}: rewound"));
        assert_kept(&held(&other, device), &with_b(5), &format!("{device}: forked"));
        // What has been rounded is on the codes already.
        let again = other.to_dtype(DType::F32);
        assert_eq!(host(&held(&again, device)), host(&held(&other, device)), "{device}: as numbers");
        let codes = again.to_dtype(DType::U8);
        assert_kept(&held(&codes, device), &held(&again, device), &format!("{device}: as codes"));
        let error = other.append(&b, &b).expect_err("full").to_string();
        assert!(error.contains("at most 1 positions"), "{error}");
        assert_eq!(other.len(), 7);
        other.clear();
        assert!(other.is_empty());
        other.append(&b, &b).expect("room");
        assert_kept(&held(&other, device), &b, &format!("{device}: cleared"));
    }
    let cache = KvCache::new([2, 1, 8, 2], DType::U8);
    cache.set_starts(&Tensor::from([0i64, 2])).expect("starts");
    let new = Tensor::ones([2, 1, 3, 2], ());
    let mask = cache.append(&new, &new).expect("room").mask.i((1, 0, 2));
    assert_eq!(mask.to_vec::<bool>().expect("a mask")[..4], [false, false, true, false]);
}

#[test]
fn a_cache_of_codes_takes_a_quarter_of_the_memory() {
    let bytes = |dtype: DType| {
        let cache = KvCache::new([1, 2, 4096, 64], dtype);
        let new = Tensor::ones([1, 2, 1, 64], ());
        cache.append(&new, &new).expect("room").keys.realize().expect("a step");
        cache.append(&new, &new).expect("room").keys.plan().expect("a step").peak_bytes()
    };
    let (codes, numbers) = (bytes(DType::U8), bytes(DType::F32));
    assert!(codes * 10 <= numbers * 3, "{codes} bytes of {numbers}");
}

#[test]
fn longer_texts_plan_and_compile_nothing() {
    for device in devices() {
        with_context(&Context::new(), || {
            let _no_grad = kiln::no_grad();
            let opts = AttentionLayerOpts::default().causal(true).rotary(1e4).kv_heads(1);
            let layer = MultiheadAttention::new(16, 2, opts, device);
            let run = || {
                let cache = layer.cache(1, 200).to_dtype(DType::U8);
                let x = Tensor::ones([1, 1, 16], device);
                for _ in 0..150 {
                    layer.attend_cached(&x, &cache).realize().expect("a step");
                }
            };
            // The first run draws the weights, too.
            run();
            run();
            let before = kiln::context().counters();
            run();
            let now = kiln::context().counters();
            let planned =
                (now.plans_built - before.plans_built, now.kernels_compiled - before.kernels_compiled);
            assert_eq!(planned, (0, 0), "{device}: plans and kernels of a second run");
        });
    }
}

#[test]
fn types_that_cannot_hold_keys_and_gradients_that_cannot_pass_are_errors() {
    let one = Tensor::ones([1, 1, 1, 2], ());
    for dtype in [DType::Bool, DType::I32, DType::U32, DType::I64] {
        let cache = KvCache::new([1, 1, 4, 2], dtype);
        let error = cache.append(&one, &one).expect_err("integers").to_string();
        let expected =
            format!("expected a cache of floats, or of u8 for codes of 8 bits, found a cache of {dtype}");
        assert!(error.contains(&expected) && error.contains("quantized_cache.rs"), "{error}");
        assert!(cache.is_empty());
    }
    let cache = KvCache::new([1, 1, 4, 2], DType::U8);
    let tracked = one.clone().with_requires_grad();
    let error = cache.append(&tracked, &one).expect_err("tracked").to_string();
    assert!(error.contains("no_grad") && error.contains("quantized_cache.rs"), "{error}");
    assert!(cache.is_empty());
    kiln::grad::without_grad(|| cache.append(&tracked, &one)).expect("a constant");
    // A layer's weights are tracked.
    let layer = MultiheadAttention::new(4, 2, AttentionLayerOpts::default(), ());
    let attend = || layer.attend_cached(&Tensor::ones([1, 1, 4], ()), &layer.cache(1, 4).to_dtype(DType::U8));
    let error = attend().check().expect_err("tracked").to_string();
    assert!(error.contains("attend_cached: expected rows without gradients"), "{error}");
    assert!(kiln::grad::without_grad(attend).check().is_ok());
}
