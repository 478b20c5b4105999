//! Beam search, against all texts there are.

use kiln::nn::{
    AttentionLayerOpts, Beam, BeamOpts, Embedding, GenerateOpts, KvCache, Layer, Linear, MultiheadAttention,
    Sampling, beam_search, generate,
};
use kiln::prelude::*;

const VOCABULARY: usize = 5;
const STOP: i64 = 0;

/// Every device at hand.
fn devices() -> Vec<Device> {
    let wgpu = Device::wgpu(0);
    [Device::cpu()].into_iter().chain(wgpu.name().is_ok().then_some(wgpu)).collect()
}

/// Attention with a cache, and logits of what follows each position.
struct Model {
    embedding: Embedding,
    layer: MultiheadAttention,
    head: Linear,
}

impl Model {
    fn new(seed: u64, device: Device) -> Model {
        kiln::manual_seed(seed);
        let opts = AttentionLayerOpts::default().causal(true).rotary(1e4);
        Model {
            embedding: Embedding::new(VOCABULARY, 16, device),
            layer: MultiheadAttention::new(16, 2, opts, device),
            head: Linear::new(16, VOCABULARY, device),
        }
    }

    /// Logits with enough between them that texts differ.
    fn logits(&self, x: &Tensor) -> Tensor {
        self.head.forward(x) * 8.0
    }

    fn next(&self, tokens: &Tensor, cache: &KvCache) -> Tensor {
        let x = self.layer.attend_cached(&self.embedding.forward(tokens), cache);
        self.logits(&x.i((.., -1)))
    }

    /// The log-probability of what follows the first `prompt` tokens.
    fn log_probability(&self, tokens: &[i64], prompt: usize) -> f64 {
        let device = self.head.weight.device();
        let all = Tensor::from_vec(tokens.to_vec(), [1, tokens.len()], device);
        let logits = self.logits(&self.layer.forward(&self.embedding.forward(&all)));
        let each = logits.log_softmax(-1).to_vec::<f32>().unwrap();
        (prompt..tokens.len()).map(|i| f64::from(each[(i - 1) * VOCABULARY + tokens[i] as usize])).sum()
    }

    fn search(&self, prompt: &[i64], opts: &BeamOpts, dtype: DType) -> Vec<Beam> {
        let cache = self.layer.cache(opts.beams, 16).to_dtype(dtype);
        let device = self.head.weight.device();
        let caches = std::slice::from_ref(&cache);
        beam_search(prompt, opts.clone(), device, caches, |tokens| self.next(tokens, &cache)).unwrap()
    }
}

/// All texts of up to `most` tokens after a prompt, and their scores, the best first.
fn all(model: &Model, prompt: &[i64], most: usize, penalty: f64) -> Vec<Beam> {
    let (mut open, mut beams) = (vec![Vec::new()], Vec::new());
    for length in 1..=most {
        let score = |text: &[i64]| {
            let probability = model.log_probability(&[prompt, text].concat(), prompt.len());
            probability / (length as f64).powf(penalty)
        };
        let longer = |text: Vec<i64>| (0..VOCABULARY as i64).map(move |token| [&text[..], &[token]].concat());
        let texts: Vec<Vec<i64>> = open.drain(..).flat_map(longer).collect();
        for text in texts {
            let ends = text[length - 1] == STOP;
            if ends || length == most {
                let tokens = text[..length - usize::from(ends)].to_vec();
                beams.push(Beam { tokens, score: score(&text) });
            }
            if !ends {
                open.push(text);
            }
        }
    }
    beams.sort_by(|a, b| b.score.total_cmp(&a.score));
    beams
}

fn assert_same(found: &[Beam], expected: &[Beam], which: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.tokens, expected.tokens, "{which}");
        assert!((found.score - expected.score).abs() < 1e-4, "{which}: {found:?}, {expected:?}");
    }
}

/// As many beams as there are texts miss none; short texts are not favoured, so nothing ends too soon.
#[test]
fn as_many_beams_as_texts_find_the_best_of_all() {
    let _no_graph = kiln::no_grad();
    for device in devices() {
        for seed in 0..4 {
            let model = Model::new(seed, device);
            let opts = BeamOpts::default().beams(40).max_tokens(3).stop(vec![STOP]);
            for penalty in [0.0, 1.0] {
                let found = model.search(&[3, 1], &opts.clone().length_penalty(penalty), DType::F32);
                let expected = all(&model, &[3, 1], 3, penalty);
                assert_same(&found[..8], &expected[..8], &format!("{device}, seed {seed}, {penalty}"));
            }
        }
    }
}

#[test]
fn one_beam_is_the_likeliest_token_each_time() {
    let _no_graph = kiln::no_grad();
    let model = Model::new(7, Device::cpu());
    let cache = model.layer.cache(1, 16);
    let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(6).stop(vec![STOP]);
    let expected: kiln::Result<Vec<i64>> =
        generate(&[2], opts, (), |tokens| model.next(tokens, &cache)).collect();
    let opts = BeamOpts::default().beams(1).max_tokens(6).stop(vec![STOP]);
    assert_eq!(model.search(&[2], &opts, DType::F32)[0].tokens, expected.unwrap());
}

/// Each text's own keys and values follow it, also as codes: what it scores is what it scores alone.
#[test]
fn scores_are_those_of_the_texts_alone() {
    let _no_graph = kiln::no_grad();
    for (dtype, near) in [(DType::F32, 1e-4), (DType::U8, 0.03)] {
        let model = Model::new(11, Device::cpu());
        let opts = BeamOpts::default().beams(3).max_tokens(8).stop(vec![STOP]);
        let beams = model.search(&[4, 2, 1], &opts, dtype);
        assert!(beams.windows(2).all(|pair| pair[0].score >= pair[1].score), "{beams:?}");
        for Beam { tokens, score } in &beams {
            let end = if tokens.len() < 8 { vec![STOP] } else { vec![] };
            let text = [&[4, 2, 1], &tokens[..], &end].concat();
            let alone = model.log_probability(&text, 3) / (text.len() - 3) as f64;
            assert!((score - alone).abs() < near, "{dtype}: {tokens:?} {score} {alone}");
        }
    }
}

#[test]
fn a_search_ends_when_nothing_better_can_come() {
    let after = Tensor::from([[0.9f32, 0.1], [0.5, 0.5]]).log();
    let mut steps = 0;
    let step = |tokens: &Tensor| {
        steps += 1;
        after.index_select(0, &tokens.i((.., -1)))
    };
    let opts = BeamOpts::default().beams(1).max_tokens(9).stop(vec![0]);
    assert!(beam_search(&[0], opts, (), &[], step).unwrap()[0].tokens.is_empty());
    assert_eq!(steps, 1);
}

#[test]
fn too_few_tokens_to_go_on_with_end_the_search() {
    // Only 1, then only the end.
    let after = Tensor::from([[0.0f32, 1.0], [1.0, 0.0]]).log();
    let step = |tokens: &Tensor| after.index_select(0, &tokens.i((.., -1)));
    let opts = BeamOpts::default().beams(3).max_tokens(9).stop(vec![0]);
    let beams = beam_search(&[0], opts.clone(), (), &[], step).unwrap();
    assert_eq!(beams, [Beam { tokens: vec![1], score: 0.0 }]);
    assert!(beam_search(&[0], opts.clone().max_tokens(0), (), &[], step).unwrap().is_empty());
    let beams = [0, 1 << 40].map(|count| (&[0][..], opts.clone().beams(count)));
    for (prompt, opts) in beams.into_iter().chain([(&[][..], opts.clone())]) {
        let error = beam_search(prompt, opts, (), &[], step).unwrap_err().to_string();
        assert!(error.contains("beam_search: expected at least one token"), "{error}");
    }
    let rows = beam_search(&[0], opts.clone().beams(1), (), &[], |_| Tensor::zeros([5, 2], ()));
    assert!(rows.unwrap_err().to_string().contains("expected logits of 1 rows, one a beam, found 5"));
    // The error of a step, and rows that do not fit.
    let error = beam_search(&[0], opts, (), &[], |_| Tensor::zeros([2, 3], ()) + Tensor::zeros([4], ()));
    assert!(error.unwrap_err().to_string().contains("broadcast"));
    let error = KvCache::new([2, 1, 4, 2], ()).reorder(&Tensor::from([0i64])).unwrap_err().to_string();
    assert!(error.contains("reorder: expected integers of shape [2]"), "{error}");
}
