//! Layers are known by their paths in the model.

use kiln::nn::{Layer, Linear, ModuleExt, Relu, Sequential, TransformerEncoderLayer, TransformerOpts};
use kiln::optim::{Optimizer, Sgd, SgdOpts};

use super::*;

struct Classifier {
    encoder: Vec<TransformerEncoderLayer>,
    head: Sequential,
}
kiln::module!(Classifier { encoder, head });

impl Classifier {
    fn new() -> Classifier {
        let layer = || TransformerEncoderLayer::new(8, 2, TransformerOpts::default(), ());
        let head = Sequential::new().push(Linear::new(8, 8, ())).push(Relu).push(Linear::new(8, 2, ()));
        Classifier { encoder: vec![layer(), layer()], head }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.encoder.iter().fold(x.clone(), |x, layer| layer.forward(&x)))
    }
}

/// The labels of the operations in kernels, each once.
fn labels(profile: &Profile) -> Vec<String> {
    let operations = profile.kernels().flat_map(|run| run.kernel.operations.clone());
    let mut labels: Vec<String> =
        operations.filter_map(|one| one.label.map(|label| label.to_string())).collect();
    labels.sort();
    labels.dedup();
    labels
}

#[test]
fn layers_have_their_paths_as_labels_forward_and_backward() {
    let _alone = alone();
    let net = Classifier::new();
    let mut optimizer = Sgd::new(net.parameters(), SgdOpts::default());
    let profiler = Profiler::builder().predict(false).start();
    let x = Tensor::ones([1, 4, 8], ());
    record_function("forward", || net.forward(&x)).square().sum(..).backward().expect("gradients");
    optimizer.step().expect("a step");
    let labels = labels(&profiler.stop().expect("a profile"));
    for layer in ["encoder.0.self_attn", "encoder.1.self_attn.q_proj", "encoder.1.norm1", "head.0", "head.2"]
    {
        assert!(labels.iter().any(|label| *label == format!("forward/{layer}")), "{layer}: {labels:?}");
    }
    assert!(labels.iter().any(|label| label == "optimizer"), "{labels:?}");
}

#[test]
fn a_layer_that_no_model_holds_has_no_label() {
    let _alone = alone();
    let layer = Linear::new(4, 2, ());
    let profiler = Profiler::builder().predict(false).start();
    layer.forward(&Tensor::ones([1, 4], ())).realize().expect("a product");
    assert!(labels(&profiler.stop().expect("a profile")).is_empty());
}
