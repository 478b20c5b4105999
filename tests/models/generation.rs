//! What generating token by token needs: caches that are written where they lie, and attention as
//! models have it.

use std::f64::consts::TAU;

use kiln::nn::{
    AttentionInput, AttentionLayerOpts, Embedding, GenerateOpts, KvCache, Layer, Linear, MultiheadAttention,
    Rotary, RotaryScaling, Sampling, StopText, generate,
};
use kiln::prelude::*;
use kiln::{Context, Generator, with_context};

/// Every device at hand.
pub fn devices() -> Vec<Device> {
    let wgpu = Device::wgpu(0);
    [Device::cpu()].into_iter().chain(wgpu.name().is_ok().then_some(wgpu)).collect()
}

/// Keys, values or queries of one sequence.
fn drawn(positions: usize, device: Device) -> Tensor {
    let x = Tensor::randn([1, 2, positions, 8], device);
    x.realize().expect("random numbers");
    x
}

/// Bytes that the third of three steps moves, and what it launches, with a cache of this type.
fn cost_of_a_step(capacity: usize, device: Device, dtype: DType) -> (u64, u64) {
    let context = Context::new();
    with_context(&context, || {
        let _no_grad = kiln::no_grad();
        let cache = KvCache::new([1, 2, capacity, 8], (device, dtype));
        let mut before = context.counters();
        for _ in 0..3 {
            before = context.counters();
            let new = drawn(1, device);
            before.bytes_moved = context.counters().bytes_moved;
            before.kernels_launched = context.counters().kernels_launched;
            let held = cache.append(&new, &new).expect("room");
            let opts = AttentionOpts::default().mask(&held.mask);
            new.scaled_dot_product_attention(&held.keys, &held.values, opts).realize().expect("attention");
        }
        let now = context.counters();
        (now.bytes_moved - before.bytes_moved, now.kernels_launched - before.kernels_launched)
    })
}

#[test]
fn a_step_costs_what_it_writes_and_what_is_there() {
    for (device, dtype) in
        devices().into_iter().flat_map(|device| [DType::F32, DType::U8].map(|t| (device, t)))
    {
        let (small, large) = (cost_of_a_step(64, device, dtype), cost_of_a_step(8192, device, dtype));
        assert_eq!(small, large, "{device}, {dtype}: bytes and launches by capacity");
    }
}

#[test]
fn a_slice_is_written_where_its_tensor_lies_if_nobody_else_holds_that() {
    for device in devices() {
        let context = Context::new();
        let (held, state) = with_context(&context, || {
            let state = Var::new(Tensor::zeros([512, 64], device));
            let new = Tensor::ones([1, 64], device);
            kiln::realize(&[&state.get(), &new]).expect("memory");
            let before = context.counters().bytes_moved;
            state.set(state.get().slice_update(0, 7, &new)).expect("a slice");
            state.get().realize().expect("a slice");
            assert!(context.counters().bytes_moved - before < 4096, "{device}");
            // Now there is a second holder, whose values stay.
            let held = state.get();
            state.set(held.slice_update(0, 8, &new)).expect("a slice");
            state.get().realize().expect("a slice");
            (held, state.get())
        });
        let sums = |x: &Tensor| x.sum(..).to(Device::cpu()).item::<f32>().expect("a sum");
        assert_eq!((sums(&held), sums(&state)), (64.0, 128.0), "{device}");
    }
    let x = Tensor::zeros([4], ());
    for start in [3, -5] {
        let error =
            x.slice_update(0, start, &Tensor::ones([2], ())).check().expect_err("no room").to_string();
        assert!(
            error.contains("a start within 4") && error.contains("tests/models/generation.rs"),
            "{error}"
        );
    }
    assert_eq!(x.slice_update(0, -2, &Tensor::ones([2], ())).to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 1.0]);
}

/// What a cache holds of its first positions.
fn held(cache: &KvCache, like: &Tensor) -> Vec<f32> {
    let all = cache.fork().append(like, like).expect("room").keys;
    all.narrow(2, 0, cache.len()).to_vec::<f32>().expect("values")
}

#[test]
fn caches_rewind_and_fork() {
    let (a, b) = (drawn(5, Device::cpu()), drawn(2, Device::cpu()));
    let cache = KvCache::new([1, 2, 70, 8], ());
    cache.append(&a, &a).expect("room");
    let other = cache.fork();
    cache.truncate(3);
    cache.append(&b, &b).expect("room");
    other.append(&b, &b).expect("room");
    let beginning = |n: usize| a.narrow(2, 0, n);
    let expected = |n: usize| Tensor::cat(&[&beginning(n), &b], 2).to_vec::<f32>().expect("values");
    assert_eq!((cache.len(), other.len()), (5, 7));
    assert_eq!(held(&cache, &b), expected(3), "rewound");
    assert_eq!(held(&other, &b), expected(5), "forked");
    let error =
        other.append(&drawn(64, Device::cpu()), &drawn(64, Device::cpu())).expect_err("full").to_string();
    assert!(
        error.contains("at most 63 positions") && error.contains("tests/models/generation.rs"),
        "{error}"
    );
    let narrow = Tensor::ones([1, 2, 1, 4], ());
    assert!(cache.append(&narrow, &narrow).is_err());
    assert_eq!(cache.len(), 5, "as it was");
}

#[test]
fn caches_may_keep_less_exact_types_than_are_read() {
    let cache = KvCache::new([1, 2, 64, 8], (Device::cpu(), DType::BF16));
    let new = drawn(3, Device::cpu());
    let read = cache.append(&new, &new).expect("room").keys;
    assert_eq!(read.dtype(), DType::F32);
    let rounded = new.to_dtype(DType::BF16).to_dtype(DType::F32);
    assert_eq!(read.narrow(2, 0, 3).to_vec::<f32>().unwrap(), rounded.to_vec::<f32>().unwrap());
}

/// Angles per position that a model's code states, by plane.
fn frequencies(scaling: RotaryScaling, width: usize, base: f64) -> Vec<f64> {
    let plane = |i: usize, base: f64| base.powf(-2.0 * i as f64 / width as f64);
    (0..width / 2)
        .map(|i| {
            let plain = plane(i, base);
            match scaling {
                RotaryScaling::Linear { factor } => plain / factor,
                RotaryScaling::Ntk { factor } => {
                    plane(i, base * factor.powf(width as f64 / (width as f64 - 2.0)))
                }
                RotaryScaling::Llama3 { factor, low, high, original } => {
                    let wave = TAU / plain;
                    if wave < original / high {
                        plain
                    } else if wave > original / low {
                        plain / factor
                    } else {
                        let smooth = (original / wave - low) / (high - low);
                        (1.0 - smooth) * plain / factor + smooth * plain
                    }
                }
                RotaryScaling::Yarn { factor, fast, slow, original } => {
                    let turns = |n: f64| width as f64 * (original / (n * TAU)).ln() / (2.0 * base.ln());
                    let (first, last) =
                        (turns(fast).floor().max(0.0), turns(slow).ceil().min(width as f64 - 1.0));
                    let ramp = ((i as f64 - first) / (last - first)).clamp(0.0, 1.0);
                    plain / factor * ramp + plain * (1.0 - ramp)
                }
                _ => plain,
            }
        })
        .collect()
}

#[test]
fn rotary_frequencies_are_those_of_the_models() {
    let (base, width, position) = (1e4, 16, 37.0f64);
    let original = 64.0;
    for scaling in [
        RotaryScaling::None,
        RotaryScaling::Linear { factor: 4.0 },
        RotaryScaling::Ntk { factor: 4.0 },
        RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original },
        RotaryScaling::Yarn { factor: 4.0, fast: 32.0, slow: 1.0, original },
    ] {
        let rotary = Rotary::from(base).scaling(scaling);
        // The first channel of each plane is 1, the second 0.
        let plane = Tensor::cat(&[&Tensor::ones([1, 8], ()), &Tensor::zeros([1, 8], ())], -1);
        let start = Tensor::scalar(position as i64, ());
        let y = rotary.turn(&plane, Some(&start)).to_vec::<f32>().expect("turned");
        let length =
            if let RotaryScaling::Yarn { factor, .. } = scaling { 0.1 * factor.ln() + 1.0 } else { 1.0 };
        for (i, frequency) in frequencies(scaling, width, base).into_iter().enumerate() {
            let (sin, cos) = (position * frequency).sin_cos();
            let near = |found: f32, right: f64| (f64::from(found) - right * length).abs() < 2e-5;
            assert!(near(y[i], cos) && near(y[i + 8], sin), "{scaling:?}: plane {i}");
        }
    }
}

#[test]
fn planes_may_lie_next_to_each_other_and_channels_stay_as_they_are() {
    let x = Tensor::arange(0.0f32, 12.0, 1.0, ()).reshape([2, 6]);
    let apart = Rotary::default().turn(&x, None);
    // Pairs that lie next to each other, put half a head apart.
    let moved = x.reshape([2, 3, 2]).transpose(1, 2).reshape([2, 6]);
    let next = Rotary::default().interleaved(true).turn(&x, None);
    let next = next.reshape([2, 3, 2]).transpose(1, 2).reshape([2, 6]);
    let expected = Rotary::default().turn(&moved, None).to_vec::<f32>().unwrap();
    assert_eq!(next.to_vec::<f32>().unwrap(), expected);
    assert_ne!(apart.to_vec::<f32>().unwrap(), expected);
    let part = Rotary::default().width(4).turn(&x, None);
    assert_eq!(part.i((.., r(4, 6))).to_vec::<f32>().unwrap(), x.i((.., r(4, 6))).to_vec::<f32>().unwrap());
    let whole = Rotary::default().turn(&x.i((.., r(0, 4))), None).to_vec::<f32>().unwrap();
    assert_eq!(part.i((.., r(0, 4))).to_vec::<f32>().unwrap(), whole);
    let error = Rotary::default().width(8).turn(&x, None).check().expect_err("too wide").to_string();
    assert!(error.contains("8 channels") && error.contains("tests/models/generation.rs"), "{error}");
}

/// Options as Llama, Qwen 3, Gemma 2, Mistral, MPT and GPT-J have them.
fn layers() -> Vec<(&'static str, AttentionLayerOpts)> {
    let causal = || AttentionLayerOpts::default().causal(true);
    let llama3 = RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 16.0 };
    vec![
        ("llama", causal().bias(false).kv_heads(2).rotary(Rotary::from(5e5).scaling(llama3))),
        ("qwen", causal().bias(false).head_width(6).qk_norm(1e-6).kv_heads(1).rotary(1e6)),
        ("gemma", causal().bias(false).softcap(5.0).scale(0.3).rotary(1e4).window(3)),
        ("mistral", causal().bias(false).out_bias(true).window(4).rotary(1e4)),
        ("mpt", causal().alibi(true)),
        ("gpt-j", causal().rotary(Rotary::default().interleaved(true).width(2))),
        ("around", AttentionLayerOpts::default().window(2)),
    ]
}

#[test]
fn layers_of_models_give_the_same_with_a_cache_and_without() {
    kiln::manual_seed(3);
    for device in devices() {
        for (name, opts) in layers().into_iter().filter(|(_, opts)| opts.causal) {
            let layer = MultiheadAttention::new(16, 4, opts, device);
            let x = Tensor::randn([2, 7, 16], device);
            let whole =
                layer.attend(&x, AttentionInput::default()).to(Device::cpu()).to_vec::<f32>().unwrap();
            let cache = layer.cache(2, 80);
            let pieces = [(0, 3), (3, 4), (4, 7)].map(|(from, to)| {
                let y = layer.attend_cached(&x.i((.., r(from, to))), &cache);
                y.realize().unwrap();
                y
            });
            let pieces = Tensor::cat(&pieces, 1).to(Device::cpu()).to_vec::<f32>().unwrap();
            let worst = whole.iter().zip(&pieces).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 3e-5, "{name} on {device}: {worst}");
        }
    }
}

/// Attention by its definition, for one sequence of one head: `[l, e]`.
fn by_definition(q: &Tensor, k: &Tensor, v: &Tensor, opts: &AttentionLayerOpts, slope: f32) -> Tensor {
    let [l, e] = q.dims().unwrap();
    let scores = q.matmul(&k.t()) * opts.scale.unwrap_or(1.0 / (e as f64).sqrt());
    let scores = opts.softcap.map_or(scores.clone(), |cap| (scores / cap).tanh() * cap);
    let mut summand = vec![0.0f32; l * l];
    for (at, x) in summand.iter_mut().enumerate() {
        let (i, j) = (at / l, at % l);
        let hidden = opts.causal && j > i || opts.window.is_some_and(|w| i.abs_diff(j) >= w);
        *x = if hidden { f32::NEG_INFINITY } else { -slope * i.abs_diff(j) as f32 };
    }
    (scores + Tensor::from_vec(summand, [l, l], ())).softmax(-1).matmul(v)
}

#[test]
fn options_of_attention_do_what_they_say() {
    kiln::manual_seed(5);
    let x = Tensor::randn([1, 6, 8], ());
    for (name, opts) in layers() {
        let mut opts = opts;
        (opts.rotary, opts.kv_heads, opts.qk_norm) = (None, None, None);
        let layer = MultiheadAttention::new(8, 2, opts.clone(), ());
        let width = layer.q_proj.weight.shape()[0] / 2;
        let heads = |y: Tensor| y.reshape([6, 2, width]).transpose(0, 1);
        let [q, k, v] = [&layer.q_proj, &layer.k_proj, &layer.v_proj].map(|part| heads(part.forward(&x)));
        // Two heads: slopes of 2^-4 and 2^-8.
        let slope = |head: i64| if opts.alibi { [0.0625, 0.00390625][head as usize] } else { 0.0 };
        let each = [0, 1].map(|head| by_definition(&q.i(head), &k.i(head), &v.i(head), &opts, slope(head)));
        let joined = Tensor::cat(&each, 1).unsqueeze(0);
        let expected = layer.out_proj.forward(&joined).to_vec::<f32>().unwrap();
        let found = layer.forward(&x).to_vec::<f32>().unwrap();
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 2e-5, "{name}: {worst}");
        assert_eq!(layer.out_proj.bias.is_some(), opts.out_bias.unwrap_or(opts.bias), "{name}");
    }
}

#[test]
fn a_causal_layer_takes_a_mask_too() {
    kiln::manual_seed(6);
    let x = Tensor::randn([1, 4, 8], ());
    let layer = MultiheadAttention::new(8, 2, AttentionLayerOpts::default().causal(true), ());
    // The first position is padding.
    let shown = Tensor::from([false, true, true, true]).reshape([1, 1, 1, 4]);
    let y = layer.attend(&x, AttentionInput::default().mask(&shown));
    let alone = layer.forward(&x.i((.., r(1, 4))));
    let (y, alone) = (y.i((.., r(1, 4))).to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
    assert!(y.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-5));
}

/// How often each token is picked from the same logits.
fn counts(sampling: &Sampling, logits: &[f32], picks: usize) -> Vec<usize> {
    let rows = Tensor::from_slice(logits, [1, logits.len()], ()).expand([picks, logits.len()]);
    let mut counts = vec![0; logits.len()];
    let picked = sampling.pick(&rows, None, &mut Generator::new(4)).to_vec::<i64>().expect("tokens");
    picked.iter().for_each(|&token| counts[token as usize] += 1);
    counts
}

#[test]
fn tokens_are_picked_from_what_is_left_as_often_as_they_are_likely() {
    // Probabilities 0.1, 0.5, 0.25, 0.15 in this order.
    let logits = [0.1f32, 0.5, 0.25, 0.15].map(f32::ln);
    let cases = [
        (Sampling::greedy(), [0.0f64, 1.0, 0.0, 0.0]),
        (Sampling::default(), [0.1, 0.5, 0.25, 0.15]),
        (Sampling::default().top_k(2), [0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]),
        (Sampling::default().top_p(0.8), [0.0, 5.0 / 9.0, 2.5 / 9.0, 1.5 / 9.0]),
        (Sampling::default().top_p(0.0), [0.0, 1.0, 0.0, 0.0]),
        (Sampling::default().min_p(0.4), [0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]),
        (Sampling::default().top_k(3).top_p(0.5), [0.0, 1.0, 0.0, 0.0]),
        (Sampling::default().temperature(0.5), [0.01, 0.25, 0.0625, 0.0225].map(|p| p / 0.345)),
    ];
    for (sampling, expected) in cases {
        let found = counts(&sampling, &logits, 4000);
        for (found, expected) in found.iter().zip(expected) {
            let most = 4.0 * (4000.0 * expected * (1.0 - expected)).sqrt();
            assert!((*found as f64 - 4000.0 * expected).abs() <= most, "{sampling:?}: {found} of {expected}");
        }
    }
    let seen = Tensor::from([[1i64, 1, 3]]);
    let penalty = Sampling::greedy().repetition_penalty(10.0);
    let pick = |logits: [f32; 4]| {
        let logits = Tensor::from_slice(&logits, [1, 4], ());
        penalty.pick(&logits, Some(&seen), &mut Generator::new(1)).to_vec::<i64>().expect("a token")
    };
    assert_eq!((pick([1.0, 5.0, 0.0, 4.0]), pick([-3.0, -0.1, -0.9, -0.2])), (vec![0], vec![2]));
}

/// Two layers with caches of their own, and what picks tokens from them.
pub struct Model {
    embedding: Embedding,
    pub layers: Vec<MultiheadAttention>,
    head: Linear,
}

impl Model {
    fn new(device: Device) -> Model {
        Model::with(AttentionLayerOpts::default().causal(true).rotary(1e4).kv_heads(1), device)
    }

    pub fn with(opts: AttentionLayerOpts, device: Device) -> Model {
        kiln::manual_seed(9);
        let layers = (0..2).map(|_| MultiheadAttention::new(16, 2, opts.clone(), device)).collect();
        Model { embedding: Embedding::new(30, 16, device), layers, head: Linear::new(16, 30, device) }
    }

    pub fn step(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        let mut x = self.embedding.forward(tokens);
        for (layer, cache) in self.layers.iter().zip(caches) {
            x = &x + layer.attend_cached(&x, cache);
        }
        self.head.forward(&x.i((.., -1)))
    }
}

#[test]
fn a_stream_is_the_same_for_a_seed_and_plans_nothing_for_new_lengths_it_has_had() {
    for device in devices() {
        // Other tests plan, too.
        with_context(&Context::new(), || a_stream_plans_nothing_again(device));
    }
}

fn a_stream_plans_nothing_again(device: Device) {
    let _no_grad = kiln::no_grad();
    let model = Model::new(device);
    let sampling = Sampling::default().top_k(8).top_p(0.9).repetition_penalty(1.2);
    let run = |seed: u64| {
        let caches: Vec<KvCache> = model.layers.iter().map(|layer| layer.cache(1, 200)).collect();
        let opts = GenerateOpts::default().sampling(sampling.clone()).max_tokens(150).seed(seed);
        let tokens = generate(&[3, 1, 4], opts, device, |tokens| model.step(tokens, &caches));
        tokens.collect::<Result<Vec<i64>, _>>().expect("tokens")
    };
    // The first run draws the weights, too.
    let (other, first) = (run(2), run(1));
    let before = kiln::context().counters();
    let again = run(1);
    let now = kiln::context().counters();
    assert_eq!((first.len(), &first), (150, &again), "{device}");
    assert_ne!(first, other, "{device}");
    let planned = (now.plans_built - before.plans_built, now.kernels_compiled - before.kernels_compiled);
    assert_eq!(planned, (0, 0), "{device}: plans and kernels of a second run");
}

#[test]
fn a_stream_ends_at_its_errors_and_stop_tokens() {
    let step = |tokens: &Tensor| (tokens.i((0, -1)) + 1).one_hot(10).float();
    let opts = || GenerateOpts::default().sampling(Sampling::greedy());
    let all = |opts: GenerateOpts| generate(&[2], opts, (), step).collect::<Result<Vec<i64>, _>>().unwrap();
    assert_eq!(all(opts().max_tokens(3)), [3, 4, 5]);
    assert_eq!(all(opts().stop(vec![9, 5])), [3, 4]);
    let mut wrong = generate(&[2], opts(), (), |tokens| tokens.float().reshape([7]));
    assert!(wrong.next().is_some_and(|token| token.is_err()) && wrong.next().is_none());
    assert!(generate(&[], opts(), (), step).next().is_none());
    let mut text = StopText::new(["stop"]);
    assert_eq!(text.push("nonst"), ("non".to_string(), false));
    assert_eq!((text.push("art"), text.finish()), (("start".to_string(), false), String::new()));
    assert_eq!((text.push("é sto"), text.finish()), (("é ".to_string(), false), "sto".to_string()));
}

#[test]
fn layers_that_share_a_position_compute_its_angles_once() {
    let opts = AttentionLayerOpts::default().causal(true).rotary(1e4);
    let layers: Vec<_> = (0..4).map(|_| MultiheadAttention::new(32, 2, opts.clone(), ())).collect();
    let pass = |shares: bool| {
        let caches: Vec<KvCache> = layers.iter().map(|layer| layer.cache(1, 8)).collect();
        let position = caches[0].position();
        let x = Tensor::ones([1, 1, 32], ());
        layers.iter().zip(&caches).fold(x, |x, (layer, cache)| match shares {
            true => layer.attend_cached_at(&x, cache, &position),
            false => layer.attend_cached(&x, cache),
        })
    };
    let (shared, apart) = (pass(true), pass(false));
    let [found, more] = [&shared, &apart].map(|y| y.plan().unwrap());
    // Sine and cosine of 8 angles, at 16 operations each, for three layers; queries and keys share theirs.
    assert!(found.flops() + 3 * 2 * 8 * 16 <= more.flops(), "{found}\n{more}");
    assert_eq!(shared.to_vec::<f32>().unwrap(), apart.to_vec::<f32>().unwrap());
}
