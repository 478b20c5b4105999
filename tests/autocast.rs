//! Mixed precision: which operations are computed in which type, how scopes nest, and that training by it works.

#[path = "support/adapter.rs"]
mod adapter;
#[allow(dead_code, reason = "only calls are replayed")]
mod corpus_runner;
#[path = "autocast/pytorch.rs"]
mod pytorch;
#[path = "autocast/told.rs"]
mod told;

use kiln::nn::{BatchNorm, Conv2d, Gru, Layer, LayerNorm, Linear, Lstm, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::opts::{AutocastOpts, MatrixNorm, NormOpts, Reduction};
use kiln::prelude::*;
use kiln::tensor::matmul::multi_dot;
use kiln::{autocast, autocast_dtype, einsum, no_grad, with_autocast};

const LOW: DType = DType::BF16;

/// Results of operations of `x` `[4, 4]`, positive.
type Case = (&'static str, fn(&Tensor) -> Tensor);

const PRODUCTS: &[Case] = &[
    ("matmul", |x| x.matmul(x)),
    ("mm", |x| x.mm(x)),
    ("bmm", |x| x.unsqueeze(0).bmm(&x.unsqueeze(0))),
    ("mv", |x| x.mv(&x.i(0))),
    ("addmm", |x| x.addmm(x, x, Default::default())),
    ("vecdot", |x| x.vecdot(x, 1)),
    ("baddbmm", |x| x.unsqueeze(0).baddbmm(&x.unsqueeze(0), &x.unsqueeze(0), Default::default())),
    ("addbmm", |x| x.addbmm(&x.unsqueeze(0), &x.unsqueeze(0), Default::default())),
    ("linear", |x| x.linear(x, Some(&x.i(0)))),
    ("einsum", |x| einsum("ij,jk->ik", &[x, x])),
    ("multi_dot", |x| multi_dot(&[x, x, x])),
    ("conv1d", |x| x.unsqueeze(0).conv1d(&x.reshape([4, 4, 1]), Some(&x.i(0)), Default::default())),
    ("conv_transpose1d", |x| {
        x.unsqueeze(0).conv_transpose1d(&x.reshape([4, 4, 1]), None, Default::default())
    }),
    ("prelu", |x| x.prelu(&x.i(0))),
    ("scaled_dot_product_attention", |x| x.scaled_dot_product_attention(x, x, Default::default())),
    ("lstm", |x| Lstm::new(4, 2, 1, x.device()).forward(&x.unsqueeze(1), None).0),
    ("gru", |x| Gru::new(4, 2, 2, x.device()).forward(&x.unsqueeze(1), None).0),
];

/// In `F32` on all devices.
const LOSSES: &[Case] = &[
    ("mse_loss", |x| x.mse_loss(x, Reduction::Mean)),
    ("l1_loss", |x| x.l1_loss(x, Reduction::None)),
    ("smooth_l1_loss", |x| x.smooth_l1_loss(x, Default::default())),
    ("huber_loss", |x| x.huber_loss(x, Default::default())),
    ("kl_div", |x| x.kl_div(x, Default::default())),
    ("poisson_nll_loss", |x| x.poisson_nll_loss(x, Default::default())),
    ("nll_loss", |x| x.nll_loss(&Tensor::zeros([4], (x.device(), DType::I64)), Default::default())),
    ("cross_entropy", |x| x.cross_entropy(&Tensor::zeros([4], (x.device(), DType::I64)), Default::default())),
    ("binary_cross_entropy_with_logits", |x| x.binary_cross_entropy_with_logits(x, Default::default())),
    ("hinge_embedding_loss", |x| x.hinge_embedding_loss(1.0, Default::default())),
    ("margin_ranking_loss", |x| x.margin_ranking_loss(x, 1.0, Default::default())),
    ("cosine_embedding_loss", |x| x.cosine_embedding_loss(x, 1.0, Default::default())),
    ("triplet_margin_loss", |x| x.triplet_margin_loss(x, x, Default::default())),
    ("soft_margin_loss", |x| x.soft_margin_loss(x, Reduction::Sum)),
    ("multi_margin_loss", |x| {
        x.multi_margin_loss(&Tensor::zeros([4], (x.device(), DType::I64)), Default::default())
    }),
    ("cdist", |x| x.cdist(x, 2.0)),
    ("prod", |x| x.prod(1)),
];

/// In `F32` on GPUs only.
const WIDE_ON_GPUS: &[Case] = &[
    ("exp", |x| x.exp()),
    ("square", |x| x.square()),
    ("trapezoid", |x| x.trapezoid(1.0, 0)),
    ("expm1", |x| x.expm1()),
    ("log", |x| x.log()),
    ("log2", |x| x.log2()),
    ("log10", |x| x.log10()),
    ("log1p", |x| x.log1p()),
    ("reciprocal", |x| x.reciprocal()),
    ("rsqrt", |x| x.rsqrt()),
    ("sinh", |x| x.sinh()),
    ("cosh", |x| x.cosh()),
    ("tan", |x| x.tan()),
    ("acos", |x| x.acos()),
    ("asin", |x| x.asin()),
    ("erfinv", |x| x.erfinv()),
    ("pow", |x| x.pow(2.0)),
    ("rpow", |x| x.rpow(2.0)),
    ("softplus", |x| x.softplus(1.0, 20.0)),
    ("sum", |x| x.sum(..)),
    ("cumsum", |x| x.cumsum(0)),
    ("cumprod", |x| x.cumprod(0)),
    ("logsumexp", |x| x.logsumexp(1)),
    ("softmax", |x| x.softmax(-1)),
    ("log_softmax", |x| x.log_softmax(-1)),
    ("softmin", |x| x.softmin(-1)),
    ("norm", |x| x.norm(2.0, ..)),
    ("matrix_norm", |x| x.matrix_norm(MatrixNorm::Frobenius, [0, 1])),
    ("normalize", |x| x.normalize(2.0, 1, 1e-12)),
    ("dist", |x| x.dist(x, 2.0)),
    ("renorm", |x| x.renorm(2.0, 0, 1.0)),
    ("cosine_similarity", |x| x.cosine_similarity(x, 1, 1e-8)),
    ("pairwise_distance", |x| x.pairwise_distance(x, Default::default())),
    ("layer_norm", |x| x.layer_norm([4], NormOpts::default())),
    ("rms_norm", |x| x.rms_norm([4], NormOpts::default())),
    ("group_norm", |x| x.group_norm(2, NormOpts::default())),
    ("interpolate", |x| x.reshape([1, 4, 4]).interpolate(kiln::opts::InterpolateOpts::default().size([8]))),
];

const IN_F32_ON_THE_CPU: &[Case] =
    &[("quantile", |x| x.quantile(0.5, 0, Default::default())), ("trace", |x| x.trace())];

/// Of the widest type of their operands.
const OTHERS: &[Case] = &[
    ("relu", |x| x.relu()),
    ("gelu", |x| x.gelu()),
    ("silu", |x| x.silu()),
    ("sigmoid", |x| x.sigmoid()),
    ("tanh", |x| x.tanh()),
    ("sqrt", |x| x.sqrt()),
    ("mean", |x| x.mean(..)),
    ("amax", |x| x.amax(1)),
    ("add", |x| x + x),
    ("mul by a number", |x| x * 2.0),
    ("cat", |x| Tensor::cat(&[x, x], 0)),
    ("batch_norm", |x| BatchNorm::new(4, x.device()).forward(x)),
    ("dropout", |x| x.dropout(0.5)),
    ("reshape", |x| x.reshape([16])),
];

fn dtypes(device: Device, cases: &[Case], of_low: DType, of_f32: DType) {
    let x = Tensor::rand([4, 4], device);
    for (name, case) in cases {
        let _guard = autocast(LOW);
        for (given, expected) in [(x.to_dtype(LOW), of_low), (x.clone(), of_f32)] {
            let y = case(&given);
            y.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(y.dtype(), expected, "{name} of {} on {device}", given.dtype());
        }
        // No conversion changes these.
        let wide = x.to_dtype(DType::F64);
        if !matches!(*name, "lstm" | "gru" | "batch_norm") {
            assert_eq!(case(&wide).dtype(), DType::F64, "{name} of f64 on {device}");
        }
    }
}

#[test]
fn operations_are_computed_in_the_types_of_the_table() {
    // The meta device stands for GPUs.
    for device in [Device::cpu(), Device::meta()] {
        dtypes(device, PRODUCTS, LOW, LOW);
        dtypes(device, LOSSES, DType::F32, DType::F32);
        dtypes(device, OTHERS, LOW, DType::F32);
    }
    dtypes(Device::meta(), WIDE_ON_GPUS, DType::F32, DType::F32);
    dtypes(Device::cpu(), WIDE_ON_GPUS, LOW, DType::F32);
    dtypes(Device::cpu(), IN_F32_ON_THE_CPU, DType::F32, DType::F32);
}

#[test]
fn mixed_operands_are_brought_to_one_type() {
    let (x, low) = (Tensor::ones([2, 2], ()), Tensor::ones([2, 2], LOW));
    assert!(x.matmul(&low).check().is_err(), "without autocast the types have to agree");
    let _guard = autocast(LOW);
    assert_eq!(x.matmul(&low).to_dtype(DType::F32).to_vec::<f32>().unwrap(), [2.0; 4]);
    assert_eq!((&x + &low).dtype(), DType::F32);
}

#[test]
fn scopes_nest_and_end_in_any_order() {
    let cpu = Device::cpu();
    let x = Tensor::ones([2, 2], ());
    let product = || x.matmul(&x).dtype();
    let outer = autocast(LOW);
    {
        let _inner = autocast(AutocastOpts::default().enabled(false));
        assert_eq!((product(), autocast_dtype(cpu)), (DType::F32, None));
        assert_eq!(with_autocast(DType::F16, product), DType::F16);
    }
    // A scope of other devices leaves these.
    let others = autocast(AutocastOpts::from(DType::F16).kind(DeviceKind::Cuda));
    assert_eq!((product(), autocast_dtype(Device::cuda(0))), (LOW, Some(DType::F16)));
    drop(outer);
    assert_eq!(product(), LOW, "the last one made decides");
    drop(others);
    assert_eq!(product(), DType::F32);
    let there = std::thread::spawn(|| autocast_dtype(Device::cpu())).join().unwrap();
    assert_eq!(there, None);
}

#[test]
fn another_type_than_16_bit_floats_is_refused() {
    let x = Tensor::ones([2, 2], ());
    let _guard = autocast(DType::F64);
    let error = x.matmul(&x).check().unwrap_err().to_string();
    assert!(
        error.contains("autocast: expected bf16 or f16, found f64") && error.contains("autocast.rs"),
        "{error}"
    );
    assert!(x.exp().check().is_ok());
}

#[test]
fn probabilities_in_16_bits_are_refused_with_advice() {
    let p = Tensor::full([2], 0.5, (Device::meta(), DType::F16));
    let _guard = autocast(DType::F16);
    let error = p.binary_cross_entropy(&p, Default::default()).check().unwrap_err().to_string();
    assert!(error.contains("binary_cross_entropy_with_logits"), "{error}");
    let here = Tensor::full([2], 0.5, DType::F16);
    assert_eq!(here.binary_cross_entropy(&here, Default::default()).dtype(), DType::F32);
}

/// Gradients reach parameters in `F32`, whether they are asked for within the scope or outside, and are those that casts
/// written out have.
#[test]
fn gradients_are_those_of_the_casts() {
    for device in std::iter::once(Device::cpu()).chain(adapter::adapter()) {
        for low in [DType::BF16, DType::F16] {
            let (x, w) = (Tensor::rand([8, 4], device), Tensor::rand([4, 4], device).with_requires_grad());
            let rest = |product: Tensor| product.gelu().to_dtype(DType::F32).softmax(-1).square().sum(..);
            let loss = || rest(x.matmul(&w));
            let by_hand = rest(x.to_dtype(low).matmul(&w.to_dtype(low)));
            let outside = kiln::grad(&with_autocast(low, loss), &[&w]).remove(0);
            let within = with_autocast(low, || kiln::grad(&loss(), &[&w]).remove(0));
            let expected = kiln::grad(&by_hand, &[&w]).remove(0);
            assert_eq!(outside.dtype(), DType::F32);
            let values = |x: &Tensor| x.to_vec::<f32>().unwrap();
            assert_eq!(values(&outside), values(&expected), "{device} {low}");
            assert_eq!(values(&within), values(&expected), "{device} {low}");
        }
    }
}

/// A checkpoint computes again what it computed, in the same types.
#[test]
fn checkpoints_recompute_in_the_same_types() {
    let (x, w) = (Tensor::rand([8, 4], ()), Tensor::rand([4, 4], ()).with_requires_grad());
    let forward = |x: &Tensor| x.matmul(&w).gelu().matmul(&w);
    let (plain, again) = with_autocast(LOW, || (forward(&x).sum(..), kiln::checkpoint(forward, &x).sum(..)));
    let grad = |loss: &Tensor| kiln::grad(loss, &[&w]).remove(0).to_vec::<f32>().unwrap();
    assert_eq!(grad(&plain), grad(&again));
}

#[test]
fn a_step_of_a_known_kind_plans_nothing_and_learns() {
    kiln::with_context(&kiln::Context::new(), learn);
}

fn learn() {
    kiln::manual_seed(1);
    let x = Tensor::rand([16, 1, 6, 6], ());
    let target = x.mean(3).mean(2);
    let model = Sequential::new()
        .push(Conv2d::new(1, 8, [3, 3], Default::default(), ()))
        .then(Tensor::relu)
        .then(|x| x.flatten(1, -1))
        .push(LayerNorm::new([128], ()))
        .push(Linear::new(128, 1, ()));
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(1e-2));
    let loss = || with_autocast(LOW, || model.forward(&x).mse_loss(&target, Reduction::Mean));
    let first: f32 = loss().item().unwrap();
    let context = kiln::context();
    for step in 0..30 {
        optimizer.zero_grad();
        loss().backward().unwrap();
        let before = context.counters();
        optimizer.step().unwrap();
        let made = context.counters();
        if step > 3 {
            assert_eq!(
                (made.plans_built, made.kernels_compiled),
                (before.plans_built, before.kernels_compiled)
            );
        }
    }
    let last: f32 = {
        let _guard = no_grad();
        loss().item().unwrap()
    };
    assert!(last < 0.3 * first, "{first} {last}");
    assert!(model.parameters().iter().all(|param| param.dtype() == DType::F32));
}
