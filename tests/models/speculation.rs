//! Speculative decoding: guesses change how fast tokens come, not which.

use std::cell::RefCell;

use kiln::nn::{
    AttentionLayerOpts, Draft, Embedding, GenerateOpts, KvCache, Layer, Linear, MultiheadAttention, Sampling,
    generate, lookup, speculate,
};
use kiln::prelude::*;
use kiln::{Context, with_context};

const VOCABULARY: i64 = 30;
const PROMPT: [i64; 3] = [3, 1, 4];

/// Every device at hand.
fn devices() -> Vec<Device> {
    let wgpu = Device::wgpu(0);
    [Device::cpu()].into_iter().chain(wgpu.name().is_ok().then_some(wgpu)).collect()
}

/// Two layers with caches of their own, and logits of what follows each position.
struct Model {
    embedding: Embedding,
    layers: Vec<MultiheadAttention>,
    head: Linear,
    device: Device,
}

impl Model {
    fn new(seed: u64, device: Device) -> Model {
        kiln::manual_seed(seed);
        let opts = AttentionLayerOpts::default().causal(true).rotary(1e4).kv_heads(1);
        let layers = (0..2).map(|_| MultiheadAttention::new(16, 2, opts.clone(), device)).collect();
        let embedding = Embedding::new(VOCABULARY as usize, 16, device);
        Model { embedding, layers, head: Linear::new(16, VOCABULARY as usize, device), device }
    }

    fn caches(&self, capacity: usize) -> Vec<KvCache> {
        self.layers.iter().map(|layer| layer.cache(1, capacity)).collect()
    }

    fn logits(&self, tokens: &Tensor, caches: &[KvCache]) -> Tensor {
        let x =
            self.layers.iter().zip(caches).fold(self.embedding.forward(tokens), |x, (layer, cache)| {
                &x + layer.attend_cached(&x, cache)
            });
        self.head.forward(&x)
    }

    /// What [`generate`] gives, up to its error, and how many positions it leaves in the caches.
    fn generated(&self, opts: &GenerateOpts, capacity: usize) -> (Vec<i64>, usize) {
        let caches = self.caches(capacity);
        let step = |tokens: &Tensor| self.logits(tokens, &caches).i((.., -1));
        let tokens = generate(&PROMPT, opts.clone(), self.device, step).map_while(Result::ok).collect();
        (tokens, caches[1].len())
    }
}

fn greedy() -> GenerateOpts {
    GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(24)
}

/// Guesses that are what follows for the first so many tokens, and wrong from then on.
fn right_for(count: usize, text: &[i64]) -> impl Fn(&[i64]) -> Vec<i64> {
    let text = [&PROMPT, text].concat();
    move |tokens| {
        let rest = text.get(tokens.len()..).unwrap_or_default().iter().take(6).enumerate();
        rest.map(|(i, &token)| if i < count { token } else { (token + 1) % VOCABULARY }).collect()
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_generate_whatever_is_guessed() {
    let _no_grad = kiln::no_grad();
    for device in devices() {
        let model = Model::new(9, device);
        let penalty = Sampling::greedy().repetition_penalty(1.5);
        let penalized = greedy().sampling(penalty).repetition_window(8);
        let (text, _) = model.generated(&penalized.clone(), 40);
        let cases = [
            ("plain", greedy()),
            ("penalized", penalized.clone()),
            ("stopped", penalized.clone().stop(vec![text[11], text[13]])),
            ("two", penalized.clone().max_tokens(2)),
            ("one guess", penalized.clone().guesses(1)),
            ("none", penalized.guesses(0)),
        ];
        for (name, opts) in cases {
            let (expected, held) = model.generated(&opts, 40);
            let right_of = model.generated(&opts.clone().stop(Vec::new()), 40).0;
            let counts: &[usize] = if device == Device::cpu() { &[0, 1, 2, 6] } else { &[2] };
            for &count in counts {
                let (caches, guess) = (model.caches(40), right_for(count, &right_of));
                let step = |tokens: &Tensor| model.logits(tokens, &caches);
                let guess = |tokens: &[i64]| Ok(guess(tokens));
                let mut tokens = speculate(&PROMPT, opts.clone(), device, &caches, guess, step);
                let mut found = Vec::new();
                for token in tokens.by_ref() {
                    found.push(token.expect("a token"));
                    // All that came but the last was read, and what was read was picked.
                    let least = PROMPT.len() + found.len() - 1;
                    assert!(caches.iter().all(|cache| cache.len() >= least), "{name} on {device}, {count}");
                    assert!(caches[0].len() <= PROMPT.len() + expected.len(), "{name} on {device}, {count}");
                }
                let (guessed, accepted) = (tokens.guessed(), tokens.accepted());
                assert_eq!(found, expected, "{name} on {device}, {count} right");
                assert!(caches.iter().all(|cache| cache.len() == held), "{name} on {device}, {count} right");
                match count {
                    0 => assert_eq!(accepted, 0, "{name} on {device}"),
                    6 => assert_eq!(accepted, guessed, "{name} on {device}"),
                    _ => assert!(accepted <= guessed, "{name} on {device}"),
                }
            }
        }
    }
}

#[test]
fn futures_give_the_same_tokens_also_after_one_that_was_dropped() {
    let _no_grad = kiln::no_grad();
    for device in devices() {
        let model = Model::new(9, device);
        let (expected, held) = model.generated(&greedy(), 40);
        let (caches, guess) = (model.caches(40), right_for(2, &expected));
        let step = |tokens: &Tensor| model.logits(tokens, &caches);
        let mut tokens = speculate(&PROMPT, greedy(), device, &caches, |tokens| Ok(guess(tokens)), step);
        let mut found = Vec::new();
        while let Some(token) = {
            drop(tokens.next_async());
            pollster::block_on(tokens.next_async())
        } {
            found.push(token.expect("a token"));
        }
        assert_eq!(found, expected, "{device}");
        assert!(caches.iter().all(|cache| cache.len() == held), "{device}");

        caches.iter().for_each(KvCache::clear);
        let mut tokens = speculate(&PROMPT, greedy(), device, &caches, |tokens| Ok(guess(tokens)), step);
        drop(tokens.next_async());
        drop(tokens);
        // The prompt but for its last token was read.
        assert!(caches.iter().all(|cache| cache.len() == PROMPT.len() - 1), "{device}");
    }
}

#[test]
fn penalties_fall_on_guesses_before_they_are_picked() {
    // A token is likelier again than the next higher one, unless it is penalized for it.
    let step = |tokens: &Tensor| tokens.one_hot(20).float() * 2.0 + (tokens + 1).one_hot(20).float() * 1.9;
    let opts = greedy().sampling(Sampling::greedy().repetition_penalty(1.5)).max_tokens(6);
    let guess = |tokens: &[i64]| Ok((1..=4).map(|i| tokens[tokens.len() - 1] + i).collect());
    let mut tokens = speculate(&[1], opts, (), &[], guess, step);
    assert_eq!(tokens.by_ref().map(Result::unwrap).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
    assert_eq!((tokens.guessed(), tokens.accepted()), (4, 4));
}

#[test]
fn right_guesses_save_passes() {
    let _no_grad = kiln::no_grad();
    let model = Model::new(9, Device::cpu());
    let (text, _) = model.generated(&greedy().max_tokens(21), 40);
    let (caches, passes, guess) = (model.caches(40), RefCell::new(Vec::new()), right_for(6, &text));
    let step = |tokens: &Tensor| {
        passes.borrow_mut().push(tokens.shape()[1]);
        model.logits(tokens, &caches)
    };
    let opts = greedy().max_tokens(21);
    let mut tokens = speculate(&PROMPT, opts, (), &caches, |tokens| Ok(guess(tokens)), step);
    assert_eq!(tokens.by_ref().map(Result::unwrap).collect::<Vec<_>>(), text);
    // The prompt but for its last token; four passes of five tokens each; one for the last token.
    assert_eq!(passes.borrow()[..], [2, 5, 5, 5, 5, 1]);
    assert_eq!((tokens.guessed(), tokens.accepted()), (16, 16));
}

#[test]
fn sampled_tokens_have_the_distribution_of_the_model() {
    // How likely a token follows another, by a table.
    let table = [[0.1f32, 0.5, 0.2, 0.2], [0.3, 0.1, 0.5, 0.1], [0.05, 0.25, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]];
    let logits = Tensor::from(table).log();
    let step = |tokens: &Tensor| tokens.embedding(&logits);
    // The likeliest, the second likeliest, and what never varies.
    let guess = |tokens: &[i64]| Ok(vec![[1, 2, 3, 0][tokens[tokens.len() - 1] as usize], 1, 2]);
    let opts = GenerateOpts::default().max_tokens(4000).seed(5);
    let mut tokens = speculate(&[0], opts, (), &[], guess, step);
    let (mut last, mut counts) = (0, [[0.0f64; 4]; 4]);
    for token in tokens.by_ref() {
        let token = token.expect("a token") as usize;
        counts[last][token] += 1.0;
        last = token;
    }
    for (from, (counts, likely)) in counts.iter().zip(table).enumerate() {
        let all: f64 = counts.iter().sum();
        let expected = likely.map(|p| all * f64::from(p));
        let deviation: f64 = counts.iter().zip(expected).map(|(n, e)| (n - e).powi(2) / e).sum();
        // Three degrees of freedom: exceeded once in ten thousand.
        assert!(deviation <= 21.1, "after {from}: {counts:?} of {expected:?}");
    }
    let share = tokens.accepted() as f64 / tokens.guessed() as f64;
    assert!((0.1..0.9).contains(&share), "{share}");
}

#[test]
fn longer_texts_plan_and_compile_nothing() {
    for device in devices() {
        with_context(&Context::new(), || {
            let _no_grad = kiln::no_grad();
            let (model, small) = (Model::new(9, device), Model::new(8, device));
            let sampling = Sampling::default().top_k(8).repetition_penalty(1.2);
            let opts = GenerateOpts::default().sampling(sampling).max_tokens(72).seed(1).guesses(2);
            // Weights are drawn when they are read first.
            for model in [&model, &small] {
                model.generated(&greedy().max_tokens(1), 8);
            }
            let run = || {
                let caches = model.caches(100);
                let step = |tokens: &Tensor, caches: &[KvCache]| small.logits(tokens, caches).i((.., -1));
                let mut draft = Draft::new(small.caches(100), device, step);
                // Sometimes there is no guess.
                let guess = |tokens: &[i64]| match tokens.len() % 3 {
                    0 => Ok(Vec::new()),
                    _ => draft.guess(tokens, 2),
                };
                let step = |tokens: &Tensor| model.logits(tokens, &caches);
                let tokens = speculate(&PROMPT, opts.clone(), device, &caches, guess, step);
                tokens.map(|token| token.expect("a token")).collect::<Vec<i64>>()
            };
            let first = run();
            let before = kiln::context().counters();
            assert_eq!((first.len(), &first), (72, &run()), "{device}");
            let now = kiln::context().counters();
            let planned =
                (now.plans_built - before.plans_built, now.kernels_compiled - before.kernels_compiled);
            assert_eq!(planned, (0, 0), "{device}: plans and kernels of a further run");
        });
    }
}

#[test]
fn full_caches_end_the_stream_where_they_end_generate() {
    let _no_grad = kiln::no_grad();
    let model = Model::new(9, Device::cpu());
    let (text, _) = model.generated(&greedy(), 40);
    for capacity in [3, 6, 12] {
        let (expected, held) = model.generated(&greedy(), capacity);
        assert_eq!(expected.len(), capacity - 2);
        let (caches, guess) = (model.caches(capacity), right_for(2, &text));
        let step = |tokens: &Tensor| model.logits(tokens, &caches);
        let mut tokens = speculate(&PROMPT, greedy(), (), &caches, |tokens| Ok(guess(tokens)), step);
        for expected in expected {
            assert_eq!(tokens.next().expect("a token").expect("room"), expected, "of {capacity}");
        }
        let error = tokens.next().expect("an error").expect_err("full").to_string();
        assert!(error.contains("at most 0 positions"), "{error}");
        assert!(tokens.next().is_none() && caches.iter().all(|cache| cache.len() == held));
    }
}

#[test]
fn a_draft_reads_what_is_new_and_guesses_what_it_finds_likeliest() {
    let _no_grad = kiln::no_grad();
    let model = Model::new(9, Device::cpu());
    let (text, _) = model.generated(&greedy(), 40);
    let all = [&PROMPT[..], &text].concat();
    let read = RefCell::new(Vec::new());
    let step = |tokens: &Tensor, caches: &[KvCache]| {
        read.borrow_mut().push(tokens.shape()[1]);
        model.logits(tokens, caches).i((.., -1))
    };
    let mut draft = Draft::new(model.caches(12), (), step);
    assert_eq!(draft.guess(&all[..3], 3).expect("guesses"), all[3..6]);
    // All were right: the last guess is new, and what was picked after it.
    assert_eq!(draft.guess(&all[..7], 2).expect("guesses"), all[7..9]);
    // The first was wrong, so what follows it is read anew.
    let other = [&all[..7], &[(all[7] + 1) % VOCABULARY, 2]].concat();
    let found = draft.guess(&other, 1).expect("guesses");
    assert_eq!(read.borrow()[..], [3, 1, 1, 2, 1, 2]);
    let caches = model.caches(12);
    let afresh = model.logits(&Tensor::from_slice(&other, [1, 9], ()), &caches).i((.., -1)).argmax(-1);
    assert_eq!(found, afresh.to_vec::<i64>().expect("a token"));
    // As many as there is room for.
    assert_eq!(draft.guess(&all[..11], 4).expect("guesses"), all[11..13]);
    assert!(draft.guess(&all[..13], 4).expect("no guesses").is_empty());
}

#[test]
fn wrong_guesses_and_models_are_errors_that_end_the_stream() {
    let _no_grad = kiln::no_grad();
    let model = Model::new(9, Device::cpu());
    let caches = model.caches(40);
    let fails = |guess: &dyn Fn(&[i64]) -> kiln::Result<Vec<i64>>, step: &dyn Fn(&Tensor) -> Tensor| {
        caches.iter().for_each(KvCache::clear);
        let mut tokens = speculate(&PROMPT, greedy(), (), &caches, guess, step);
        let error = tokens.next().expect("an error").expect_err("an error").to_string();
        assert!(tokens.next().is_none());
        // The prompt but for its last token was read.
        assert!(caches.iter().all(|cache| cache.len() == 2), "{error}");
        error
    };
    let step = |tokens: &Tensor| model.logits(tokens, &caches);
    let wrong = |_: &[i64]| Tensor::from([1i64]).reshape([2]).to_vec::<i64>();
    assert!(fails(&wrong, &step).contains("reshape"));
    assert!(fails(&|_| Ok(vec![VOCABULARY]), &step).contains("30"));
    let error = fails(&|_| Ok(vec![1]), &|tokens| step(tokens).i((.., -1)).unsqueeze(1));
    assert!(error.contains("expected logits [1, 5, n] of what follows each of 5 tokens"), "{error}");
    assert!(error.contains("speculation.rs"), "{error}");
    assert!(speculate(&[], greedy(), (), &caches, |_| Ok(Vec::new()), step).next().is_none());
    let mut none = speculate(&PROMPT, greedy().max_tokens(0), (), &caches, |_| Ok(Vec::new()), step);
    assert!(none.next().is_none());
    let opts = greedy().max_tokens(usize::MAX).guesses(usize::MAX).stop(vec![9]);
    let next = |tokens: &Tensor| (tokens + 1).one_hot(10).float();
    let tokens = speculate(&[6], opts, (), &[], |_| Ok(vec![7, 8]), next);
    assert_eq!(tokens.map(Result::unwrap).collect::<Vec<_>>(), [7, 8]);
}

#[test]
fn lookups_find_what_followed_the_last_time() {
    let text = [5, 6, 7, 5, 6, 8, 9, 5, 6];
    assert_eq!(lookup(&text, 2, 2), [8, 9]);
    assert_eq!(lookup(&text, 2, 9), [8, 9, 5, 6]);
    assert_eq!(lookup(&[4, 4, 4], 2, 3), [4]);
    for (tokens, run) in [(&text[..], 3), (&text[..], 0), (&text[..2], 3), (&[], 1)] {
        assert!(lookup(tokens, run, 2).is_empty(), "{tokens:?} by {run}");
    }
}
