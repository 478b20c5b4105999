//! Several prompts continued together.

use kiln::nn::{AttentionLayerOpts, GenerateOpts, KvCache, Sampling, generate_batch, pad_left};
use kiln::prelude::*;

use crate::generation::{Model, devices};

#[test]
fn prompts_of_different_lengths_are_continued_together_as_alone() {
    let causal = || AttentionLayerOpts::default().causal(true);
    let kinds = [causal().rotary(1e4).kv_heads(1), causal().alibi(true), causal().rotary(1e4).window(3)];
    let prompts = [vec![3, 1, 4, 1, 5], vec![9, 2], vec![6]];
    for (device, opts) in devices().into_iter().flat_map(|it| kinds.clone().map(|opts| (it, opts))) {
        let _no_grad = kiln::no_grad();
        let model = Model::with(opts, device);
        let caches = |rows: usize| -> Vec<KvCache> {
            model.layers.iter().map(|layer| layer.cache(rows, 16)).collect()
        };
        // The logits of three steps, each fed the tokens that are given.
        let logits = |first: Tensor, caches: &[KvCache], rest: &[i64]| -> Vec<f32> {
            let steps =
                rest.iter().map(|&token| Tensor::full([first.shape()[0], 1], token, (device, DType::I64)));
            let steps = std::iter::once(first.clone()).chain(steps);
            steps.flat_map(|tokens| model.step(&tokens, caches).to_vec::<f32>().expect("logits")).collect()
        };
        let (tokens, starts) = pad_left(&prompts, device).expect("prompts");
        let together = caches(3);
        together.iter().for_each(|cache| cache.set_starts(&starts).expect("starts"));
        // A fork knows where sequences begin.
        let forks: Vec<KvCache> = together.iter().map(KvCache::fork).collect();
        let found = logits(tokens, &forks, &[7, 8]);
        for (row, prompt) in prompts.iter().enumerate() {
            let prompt = Tensor::from_vec(prompt.clone(), [1, prompt.len()], device);
            let expected = logits(prompt, &caches(1), &[7, 8]);
            for (i, expected) in expected.iter().enumerate() {
                let found = found[i / 30 * 90 + row * 30 + i % 30];
                assert!((found - expected).abs() <= 1e-4, "{device}, row {row}, {i}: {found}, {expected}");
            }
        }
    }
    let cache = KvCache::new([2, 1, 8, 2], ());
    cache.set_starts(&Tensor::from([0i64, 2])).expect("starts");
    let new = Tensor::ones([2, 1, 3, 2], ());
    let mask = cache.append(&new, &new).expect("room").mask.i((1, 0)).narrow(1, 0, 3);
    // Padding sees itself: a softmax over nothing is NaN.
    let own = [[true, false, false], [false, true, false], [false, false, true]];
    assert_eq!(mask.to_vec::<bool>().expect("a mask"), own.concat());
    for wrong in [Tensor::from([0i64, 0, 0]), Tensor::from([0f32, 1.0])] {
        let error = cache.set_starts(&wrong).expect_err("other starts").to_string();
        assert!(error.contains("integers of shape [2]") && error.contains("batches.rs"), "{error}");
    }
    let error = pad_left(&[vec![1], Vec::new()], ()).expect_err("no token").to_string();
    assert!(error.contains("none in prompt 1"), "{error}");
}

#[test]
fn a_batch_ends_with_its_last_prompt_and_at_errors() {
    let step = |tokens: &Tensor| (tokens.i((.., -1)) + 1).one_hot(10).float();
    let opts = || GenerateOpts::default().sampling(Sampling::greedy());
    let all = |opts: GenerateOpts| -> Vec<Vec<Option<i64>>> {
        let steps = generate_batch(&[vec![2, 3], vec![5]], opts, (), step).expect("prompts");
        steps.collect::<Result<_, _>>().expect("tokens")
    };
    assert_eq!(all(opts().max_tokens(2)), [[Some(4), Some(6)], [Some(5), Some(7)]]);
    assert_eq!(all(opts().stop(vec![7])), [[Some(4), Some(6)], [Some(5), None], [Some(6), None]]);
    // The penalty falls on what each prompt has seen.
    let penalty = Sampling::greedy().repetition_penalty(10.0);
    let likeliest = |_: &Tensor| Tensor::from([[3f32, 2.0, 1.0, 0.0]]).expand([2, 4]);
    let steps =
        generate_batch(&[vec![0], vec![1]], opts().sampling(penalty.clone()).max_tokens(2), (), likeliest);
    let steps: Vec<_> = steps.expect("prompts").collect::<Result<_, _>>().expect("tokens");
    assert_eq!(steps, [[Some(1), Some(0)], [Some(2), Some(2)]]);
    let after = |tokens: &[i64]| opts().sampling(penalty.clone()).max_tokens(1).before(tokens.to_vec());
    let first = |before: &[i64]| {
        let mut steps = generate_batch(&[vec![0], vec![1]], after(before), (), likeliest).expect("prompts");
        steps.next().expect("a step").expect("tokens")
    };
    assert_eq!(first(&[1, 2]), [Some(0), Some(0)], "and on what the caches hold");
    let wrong = |tokens: &Tensor| tokens.float().reshape([7]);
    let mut steps = generate_batch(&[vec![2]], opts(), (), wrong).expect("prompts");
    assert!(steps.next().is_some_and(|step| step.is_err()) && steps.next().is_none());
    assert!(generate_batch(&[], opts(), (), step).is_err());
}
