//! Beam searches, against those of `transformers` (`record.py`).

use kiln::nn::{BeamOpts, beam_search};
use kiln::no_grad;
use kiln_models::{Checkpoint, Llama, LoadModelOpts};
use serde_json::Value;

use crate::record::{devices, recorded};

#[test]
fn beams_are_those_of_transformers() {
    let path = format!("{}/tests/recorded/beams.json", env!("CARGO_MANIFEST_DIR"));
    let searches: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (record, _no_graph) = (recorded("llama"), no_grad());
    let checkpoint = Checkpoint::open(record.saved("beams")).unwrap();
    for device in devices() {
        let model = Llama::load(&checkpoint, LoadModelOpts::default().device(device)).unwrap();
        for search in &searches {
            let opts = BeamOpts::default().beams(search["beams"].as_u64().unwrap() as usize).max_tokens(6);
            let opts = opts.stop(vec![search["end"].as_i64().unwrap()]);
            let opts = opts.length_penalty(search["penalty"].as_f64().unwrap());
            let (decoder, caches) = (model.decoder(), model.caches(opts.beams, 16));
            let step = |tokens: &kiln::Tensor| decoder.next(tokens, &caches);
            let found = beam_search(&record.tokens[..8], opts, device, &caches, step).unwrap();
            let texts: Vec<Vec<i64>> = serde_json::from_value(search["texts"].clone()).unwrap();
            let scores: Vec<f64> = serde_json::from_value(search["scores"].clone()).unwrap();
            assert_eq!(found.len(), texts.len());
            for (beam, (text, score)) in found.iter().zip(texts.iter().zip(scores)) {
                assert_eq!(&beam.tokens, text, "{device}: {search}");
                assert!((beam.score - score).abs() < 1e-4 * score.abs(), "{device}: {beam:?}, {score}");
            }
        }
    }
}
