//! Modules: what they hold, under which names, and how it changes.

use kiln::nn::{
    BatchNorm, Bilinear, Buffer, Conv2d, ConvTranspose2d, Dropout, Embedding, GroupNorm, Layer, LayerNorm,
    Linear, ModuleExt, Param, RMSNorm, Sequential,
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
    let second = Linear { weight: first.weight.clone(), bias: None };
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
    assert!(error.contains("linear") && error.contains("tests/nn.rs"), "{error}");
}
