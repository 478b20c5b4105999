//! Modules: what they hold, under which names, and how it changes.

use kiln::nn::{
    AttentionLayerOpts, BatchNorm, Bilinear, Buffer, Conv1d, Conv2d, ConvTranspose2d, Dropout, Embedding,
    Flatten, GroupNorm, Layer, LayerNorm, Linear, MaxPool2d, ModuleExt, MultiheadAttention, Param, RMSNorm,
    Sequential, SpectralNorm, TransformerEncoderLayer, TransformerOpts,
};
use kiln::prelude::*;
use kiln::{Context, with_context};

struct Block {
    inner: Linear,
    norm: Option<LayerNorm>,
    tail: Vec<Linear>,
    scale: Param,
    seen: Buffer,
    slope: f64,
}
kiln::module!(Block { inner, norm, tail, scale, seen; skip slope });

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.inner.forward(x).leaky_relu(self.slope) * self.scale.get();
        let x = self.norm.as_ref().map_or(x.clone(), |norm| norm.forward(&x));
        self.tail.iter().fold(x, |x, layer| layer.forward(&x))
    }
}

fn block() -> Block {
    Block {
        inner: Linear::new(3, 4, ()),
        norm: None,
        tail: vec![Linear::without_bias(4, 4, ()), Linear::new(4, 2, ())],
        scale: Param::new(Tensor::ones([4], ())),
        seen: Buffer::new(Tensor::zeros([1], ())),
        slope: 0.1,
    }
}

fn names(module: &dyn kiln::nn::Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn names_follow_the_fields() {
    let block = block();
    let expected = ["inner.weight", "inner.bias", "tail.0.weight", "tail.1.weight", "tail.1.bias", "scale"];
    assert_eq!(names(&block), expected);
    assert_eq!(block.named_buffers()[0].0, "seen");
    assert_eq!(block.num_params(), 12 + 4 + 16 + 8 + 2 + 4);
    let stack = Sequential::new().push(Linear::new(2, 2, ())).then(Tensor::relu).push(block);
    assert_eq!(names(&stack)[1..3], ["0.bias", "2.inner.weight"]);
    assert!(stack.forward(&Tensor::ones([5, 2], ())).check().is_err());
}

#[test]
fn a_shared_parameter_appears_once_and_gathers_both_gradients() {
    let first = Linear::without_bias(2, 2, ());
    let second = Linear::of(first.weight.clone(), None);
    let stack = Sequential::new().push(first).push(second);
    assert_eq!(names(&stack), ["0.weight"]);
    let weight = stack.parameters().remove(0);
    weight.set(&Tensor::from([[2.0f32, 0.0], [0.0, 3.0]])).unwrap();
    stack.forward(&Tensor::ones([1, 2], ())).sum(..).backward().unwrap();
    // y = w w x: by w_ij, (w x)_j + x_j (sum_k w_ki).
    assert_eq!(weight.grad().unwrap().to_vec::<f32>().unwrap(), [4.0, 5.0, 5.0, 6.0]);
}

#[test]
fn gradients_end_at_parameters_and_can_be_frozen() {
    let layer = Linear::new(3, 2, ());
    let x = Tensor::ones([4, 3], ());
    layer.bias.as_ref().unwrap().set_requires_grad(false);
    layer.forward(&x).sum(..).backward().unwrap();
    assert_eq!(layer.weight.grad().unwrap().to_vec::<f32>().unwrap(), [4.0; 6]);
    assert!(layer.bias.as_ref().unwrap().grad().is_none());
    layer.bias.as_ref().unwrap().set_requires_grad(true);
    layer.forward(&x).sum(..).backward().unwrap();
    assert_eq!(layer.weight.grad().unwrap().to_vec::<f32>().unwrap(), [8.0; 6]);
    assert_eq!(layer.bias.as_ref().unwrap().grad().unwrap().to_vec::<f32>().unwrap(), [4.0; 2]);
    layer.zero_grad();
    assert!(layer.weight.grad().is_none());
}

#[test]
fn what_a_parameter_is_set_to_gets_no_gradient() {
    let (a, b) = (Param::new(Tensor::ones([2], ())), Param::new(Tensor::ones([2], ())));
    b.set(&(a.get() * 2.0)).unwrap();
    (b.get() * 3.0).sum(..).backward().unwrap();
    assert!(a.grad().is_none());
    assert_eq!(b.grad().unwrap().to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert!(b.set(&Tensor::ones([3], ())).is_err());
}

#[test]
fn training_and_evaluation_differ_in_dropout_and_batch_norm() {
    let model = Sequential::new().push(BatchNorm::new(2, ())).push(Dropout::new(0.5));
    let x = Tensor::from([[1.0f32, 10.0], [3.0, 30.0], [5.0, 20.0], [7.0, 40.0]]);
    let y = model.forward(&x).to_vec::<f32>().unwrap();
    assert!(y.contains(&0.0), "{y:?}");
    let buffer = |name: &str| {
        let found = model.named_buffers().into_iter().find(|(n, _)| n == name).unwrap().1;
        found.get().to_vec::<f32>().unwrap()
    };
    // A tenth of the way to means 4 and 25 and unbiased variances 20/3 and 500/3.
    assert_eq!(buffer("0.running_mean"), [0.4, 2.5]);
    assert!((buffer("0.running_var")[1] - (0.9 + 50.0 / 3.0)).abs() < 1e-5);
    model.eval();
    let first = model.forward(&x).to_vec::<f32>().unwrap();
    assert_eq!(model.forward(&x).to_vec::<f32>().unwrap(), first);
    let expected = (1.0 - 0.4) / (0.9f32 + 2.0 / 3.0 + 1e-5).sqrt();
    assert!((first[0] - expected).abs() < 1e-5, "{} {expected}", first[0]);
    assert_eq!(buffer("0.running_mean"), [0.4, 2.5]);
    model.train();
    assert_ne!(model.forward(&x).to_vec::<f32>().unwrap(), first);
}

#[test]
fn a_weight_is_divided_by_its_largest_singular_value() {
    let weight = Tensor::from([[[3.0f64], [0.0]], [[4.0], [5.0]]]);
    let norm = SpectralNorm::new(weight.clone());
    let largest = |found: &Tensor| (&weight / found).to_vec::<f64>().unwrap()[0];
    for _ in 0..10 {
        norm.weight_normalized().realize().unwrap();
    }
    assert!((largest(&norm.weight_normalized()) - 45f64.sqrt()).abs() < 1e-9);
    norm.eval();
    let u = norm.u.get().to_vec::<f64>().unwrap();
    norm.weight.set(&(weight.flip(0) * 2.0)).unwrap();
    norm.weight_normalized().realize().unwrap();
    assert_eq!(norm.u.get().to_vec::<f64>().unwrap(), u);
    let buffers: Vec<String> = norm.named_buffers().into_iter().map(|(name, _)| name).collect();
    assert_eq!((names(&norm), buffers), (vec!["weight".into()], vec!["u".into(), "v".into()]));
}

#[test]
fn types_and_devices_are_changed_together() {
    let model = Sequential::new().push(Linear::new(2, 2, ())).push(BatchNorm::new(2, ()));
    model.to_dtype(DType::F64).unwrap();
    assert!(model.parameters().iter().all(|param| param.dtype() == DType::F64));
    assert_eq!(model.named_buffers()[0].1.get().dtype(), DType::F64);
    let y = model.forward(&Tensor::ones([3, 2], DType::F64));
    assert_eq!(y.dtype(), DType::F64);
    y.sum(..).backward().unwrap();
    assert_eq!(model.parameters()[0].grad().unwrap().dtype(), DType::F64);
    assert!(model.to_dtype(DType::I64).is_err());

    assert_eq!(model.check_device().unwrap(), Device::cpu());
    model.to_device(Device::null()).unwrap();
    assert_eq!(model.check_device().unwrap(), Device::null());
    let mixed = Sequential::new().push(model).push(Linear::new(2, 2, Device::cpu()));
    let error = mixed.check_device().unwrap_err().to_string();
    assert!(error.contains("1.weight on cpu") && error.contains("0.0.weight is"), "{error}");
}

#[test]
fn building_on_meta_takes_no_memory_and_knows_every_shape() {
    let context = Context::new();
    with_context(&context, || {
        let model = with_device(Device::meta(), || {
            Sequential::new().push(Linear::new(1 << 20, 1 << 20, ())).push(LayerNorm::new([1 << 20], ()))
        });
        assert_eq!(model.num_params(), (1 << 40) + 3 * (1 << 20));
        let y = model.forward(&Tensor::ones([8, 1 << 20], Device::meta()));
        assert_eq!(y.shape()[..], [8, 1 << 20]);
        y.square().mean(..).backward().unwrap();
        assert_eq!(model.parameters()[0].grad().unwrap().shape()[..], [1 << 20, 1 << 20]);
        assert_eq!(context.counters(), Context::new().counters());
    });
}

#[test]
fn every_layer_maps_shapes_and_has_gradients() {
    let image = Tensor::randn([2, 4, 6, 6], ());
    let layers: Vec<(Box<dyn Layer>, Tensor, Vec<usize>)> = vec![
        (Box::new(Linear::new(6, 5, ())), image.clone(), vec![2, 4, 6, 5]),
        (Box::new(Conv2d::new(4, 8, [3, 3], ConvOpts::default(), ())), image.clone(), vec![2, 8, 4, 4]),
        (
            Box::new(ConvTranspose2d::new(4, 3, [2, 2], ConvTransposeOpts::default(), ())),
            image.clone(),
            vec![2, 3, 7, 7],
        ),
        (Box::new(GroupNorm::new(2, 4, ())), image.clone(), vec![2, 4, 6, 6]),
        (Box::new(BatchNorm::new(4, ())), image.clone(), vec![2, 4, 6, 6]),
        (Box::new(LayerNorm::new([6, 6], ())), image.clone(), vec![2, 4, 6, 6]),
        (Box::new(RMSNorm::new([6], ())), image.clone(), vec![2, 4, 6, 6]),
        (Box::new(Embedding::new(7, 3, ())), Tensor::from([[1i64, 6], [0, 1]]), vec![2, 2, 3]),
    ];
    for (layer, x, shape) in layers {
        let y = layer.forward(&x);
        assert_eq!(y.shape()[..], shape[..]);
        (&y * Tensor::randn(y.shape(), ())).sum(..).backward().unwrap();
        for (name, param) in layer.named_parameters() {
            let gradient = param.grad().unwrap_or_else(|| panic!("{name} of {shape:?} has no gradient"));
            assert_eq!(gradient.shape(), param.shape());
            assert!(gradient.to_vec::<f32>().unwrap().iter().any(|&g| g != 0.0), "{name} of {shape:?}");
        }
    }
    let bilinear = Bilinear::new((3, 4), 2, ());
    let y = bilinear.forward(&Tensor::ones([5, 3], ()), &Tensor::ones([5, 4], ()));
    assert_eq!(y.shape()[..], [5, 2]);
}

#[test]
fn parameters_start_within_the_bound_of_their_inputs() {
    let layer = Linear::new(16, 64, ());
    let weight = layer.weight.get().to_vec::<f32>().unwrap();
    let most = weight.iter().fold(0f32, |most, w| most.max(w.abs()));
    assert!(most <= 0.25 && most > 0.24, "{most}");
    let conv = Conv2d::new(4, 8, [2, 2], ConvOpts::default().groups(2), ());
    assert_eq!(conv.weight.shape()[..], [8, 2, 2, 2]);
    let most = conv.weight.get().abs().max(..).item::<f64>().unwrap();
    assert!(most <= 8f64.sqrt().recip() && most > 0.3, "{most}");
}

#[test]
fn a_mistake_names_the_callers_line() {
    let layer = Linear::new(3, 2, ());
    let error = layer.forward(&Tensor::ones([4, 5], ())).check().unwrap_err().to_string();
    assert!(error.contains("linear") && error.contains("tests/models/nn.rs"), "{error}");
}

#[test]
fn lazy_layers_take_their_inputs_from_the_first_one() {
    kiln::manual_seed(2);
    let model = Sequential::new()
        .push(Conv2d::lazy(6, [3, 3], ConvOpts::default().groups(2), ()))
        .push(MaxPool2d::new(2, MaxPoolOpts::default()))
        .push(Flatten::default())
        .push(Linear::lazy(5, ()));
    let parameters = model.parameters();
    assert_eq!(parameters[0].shape()[..], [6, 0, 3, 3]);
    // A pass that is not computed settles everything.
    let y = model.forward(&Tensor::ones([2, 4, 8, 8], ()));
    assert_eq!(y.shape()[..], [2, 5]);
    let shapes: Vec<Vec<usize>> = parameters.iter().map(|param| param.shape().to_vec()).collect();
    assert_eq!(shapes, [vec![6, 2, 3, 3], vec![6], vec![5, 54], vec![5]]);
    let most = parameters[2].get().abs().max(..).item::<f64>().unwrap();
    assert!(most <= 54f64.sqrt().recip() && most > 0.1, "{most}");
    y.sum(..).backward().unwrap();
    assert!(parameters.iter().all(|param| param.grad().is_some()), "parameters keep their identity");
    // From then on it is a layer of that many inputs.
    assert!(model.forward(&Tensor::ones([2, 6, 8, 8], ())).check().is_err());
    let conv = Conv1d::lazy(3, [2], ConvOpts::default(), ());
    assert_eq!(conv.forward(&Tensor::ones([4, 9], ())).shape()[..], [3, 8]);
    assert!(Linear::lazy(3, ()).forward(&Tensor::ones((), ())).check().is_err());
}

#[test]
fn attention_starts_as_pytorchs() {
    let layer = MultiheadAttention::new(64, 4, AttentionLayerOpts::default(), ());
    for (name, param) in layer.named_parameters() {
        let most = param.get().abs().max(..).item::<f64>().unwrap();
        let bound = match name.as_str() {
            "q_proj.weight" | "k_proj.weight" | "v_proj.weight" => (6.0 / 256f64).sqrt(),
            "out_proj.weight" => 0.125,
            _ => 0.0,
        };
        assert!(most <= bound && most >= 0.98 * bound, "{name}: {most} for {bound}");
    }
}

/// The outputs of a layer for a sequence given in pieces of these lengths.
fn in_pieces(layer: &TransformerEncoderLayer, x: &Tensor, lengths: &[usize]) -> Vec<f32> {
    let (cache, mut start, mut pieces) = (layer.cache(2, 9), 0, Vec::new());
    for &length in lengths {
        let piece = layer.forward_cached(&x.i((.., r(start as i64, (start + length) as i64))), &cache);
        piece.realize().unwrap();
        start += length;
        assert_eq!(cache.len(), start);
        pieces.push(piece);
    }
    Tensor::cat(&pieces, 1).to_vec().unwrap()
}

#[test]
fn a_cache_gives_what_a_pass_over_everything_does() {
    kiln::manual_seed(8);
    for opts in [
        AttentionLayerOpts::default().causal(true),
        AttentionLayerOpts::default().causal(true).rotary(100.0).kv_heads(2),
    ] {
        let opts = TransformerOpts::default().attention(opts).feed_forward(8);
        let layer = TransformerEncoderLayer::new(16, 4, opts, ());
        layer.eval();
        let x = Tensor::randn([2, 8, 16], ());
        let expected = layer.forward(&x).to_vec::<f32>().unwrap();
        for lengths in [&[8][..], &[1; 8], &[3, 1, 4]] {
            for (found, expected) in in_pieces(&layer, &x, lengths).iter().zip(&expected) {
                assert!((found - expected).abs() < 2e-5, "{lengths:?}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn a_cache_is_filled_by_one_plan_and_refuses_what_does_not_fit() {
    let context = Context::new();
    with_context(&context, || {
        let opts = AttentionLayerOpts::default().causal(true).rotary(1e4);
        let layer = MultiheadAttention::new(8, 2, opts, ());
        let cache = layer.cache(1, 6);
        let x = Tensor::linspace(-1.0, 1.0, 8, ()).reshape([1, 1, 8]);
        let _no_grad = kiln::no_grad();
        let mut plans = Vec::new();
        for _ in 0..6 {
            layer.attend_cached(&x, &cache).realize().unwrap();
            plans.push(context.counters().plans_built);
        }
        assert_eq!(plans[1..], [plans[1]; 5], "from the second on, no position needs a new plan");
        let error = layer.attend_cached(&x, &cache).check().unwrap_err().to_string();
        assert!(error.contains("at most 0 positions") && error.contains("tests/models/nn.rs"), "{error}");
        assert_eq!((cache.len(), cache.capacity()), (6, 6));
        cache.clear();
        assert!(cache.is_empty() && layer.attend_cached(&x, &cache).check().is_ok());
    });
}
