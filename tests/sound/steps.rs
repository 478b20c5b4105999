//! State follows the step, wholly or not at all.

use super::*;
use kiln::unstable::ir::lazy::lazy_nodes;

fn batch(seed: u64) -> Tensor {
    let x = Tensor::linspace(0.0, 1.0 + seed as f64, 24, ()).reshape([4, 6]);
    x.realize().unwrap();
    x
}

#[test]
fn statistics_of_a_first_layer_are_computed_by_each_step() {
    let (norm, out) = (BatchNorm::new(6, ()), Linear::new(6, 1, ()));
    let average = Var::new(Tensor::zeros([1, 6], ()));
    let mut optimizer =
        Sgd::new(norm.parameters().into_iter().chain(out.parameters()), SgdOpts::default().lr(0.01));
    let mut after = Vec::new();
    for step in 0..30 {
        optimizer.zero_grad();
        let loss = out.forward(&norm.forward(&batch(step))).square().mean(..);
        loss.backward().unwrap();
        drop(loss);
        optimizer.step().unwrap();
        average.set(average.get() * 0.9 + out.weight.get() * 0.1).unwrap();
        after.push(lazy_nodes());
    }
    assert!(norm.running_mean.get().is_realized());
    // Of other tests' threads some nodes may be counted; a batch a step would be hundreds.
    assert!(after[29] < after[3] + 200, "{after:?}");
}

struct Model {
    embedding: Embedding,
    norm: BatchNorm,
    out: Linear,
}
kiln::module!(Model { embedding, norm, out });

impl Model {
    fn new() -> Model {
        Model {
            embedding: Embedding::new(10, 6, ()),
            norm: BatchNorm::new(6, ()),
            out: Linear::new(6, 1, ()),
        }
    }
    fn loss(&self, ids: [i64; 3]) -> Tensor {
        let x = self.embedding.forward(&Tensor::from_vec(ids.to_vec(), [3], ()));
        self.out.forward(&self.norm.forward(&x)).square().mean(..)
    }
    fn state(&self) -> Vec<Vec<f32>> {
        let buffers = [&self.norm.running_mean, &self.norm.running_var];
        let buffers = buffers.into_iter().map(|buffer| buffer.get().to_vec().unwrap());
        self.parameters().iter().map(|param| param.get().to_vec().unwrap()).chain(buffers).collect()
    }
}

/// A bad batch fails its step and changes nothing: not the state, and none of the later steps.
#[test]
fn a_step_that_fails_changes_nothing() {
    let (good, with_bad) = (Model::new(), Model::new());
    with_bad.load_state_dict(&good.state_dict().unwrap(), Device::cpu()).unwrap();
    let train = |model: &Model, batches: &[[i64; 3]]| {
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.1));
        for &ids in batches {
            optimizer.zero_grad();
            model.loss(ids).backward().unwrap();
            let stepped = optimizer.step();
            assert_eq!(stepped.is_err(), ids.contains(&99), "{stepped:?}");
        }
        let state = optimizer.state_dict().unwrap();
        let names: Vec<String> = state.iter().map(|(name, _)| name.to_string()).collect();
        let steps = state.get("groups.0.params.0.steps").unwrap().item::<i64>().unwrap();
        (steps, names.len())
    };
    let one = train(&good, &[[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
    let two = train(&with_bad, &[[1, 2, 3], [1, 99, 3], [4, 5, 6], [99, 0, 0], [7, 8, 9]]);
    assert_eq!((good.state(), one), (with_bad.state(), two));
    with_bad.eval();
    assert!(with_bad.loss([1, 2, 3]).item::<f32>().is_ok());
}

#[test]
fn a_bad_batch_that_is_only_looked_at_changes_nothing() {
    let model = Model::new();
    model.loss([1, 2, 3]).item::<f32>().unwrap();
    let before = model.state();
    assert!(model.loss([1, 99, 3]).item::<f32>().is_err());
    assert_eq!(model.state(), before);
}

#[test]
fn a_gradient_that_cannot_be_computed_is_forgotten() {
    let model = Model::new();
    model.eval();
    let gradient = || model.out.bias.as_ref().unwrap().grad().map(|grad| grad.to_vec::<f32>().unwrap());
    model.loss([1, 2, 3]).backward().unwrap();
    let first = gradient();
    model.loss([1, 99, 3]).backward().unwrap();
    assert!(model.loss([4, 5, 6]).backward().is_err());
    assert_eq!(gradient(), first);
}

/// Out of memory undoes a step as any other failure does.
#[test]
fn a_step_without_memory_changes_nothing() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    with_context(&context, || {
        let device = DeviceKind::Cpu.device(1);
        let norm = BatchNorm::new(64, device);
        let mut optimizer = Adam::new(norm.parameters(), AdamOpts::default());
        let mut step = |rows: usize| {
            optimizer.zero_grad();
            let x =
                Tensor::arange(0.0, (rows * 64) as f64, 1.0, device).reshape([rows, 64]).sin().materialize();
            norm.forward(&x).square().square().sum(..).backward()?;
            optimizer.step()
        };
        step(16).unwrap();
        let state = || {
            [norm.weight.get(), norm.running_mean.get(), norm.running_var.get()]
                .map(|x| x.to_vec::<f32>().unwrap())
        };
        let before = state();
        context.set_memory_limit(device, context.memory(device).unwrap().allocated + 4096).unwrap();
        assert!(step(1 << 14).is_err());
        context.set_memory_limit(device, u64::MAX).unwrap();
        assert_eq!(state(), before);
        step(16).unwrap();
        assert_ne!(state(), before);
    });
}

#[test]
fn micro_batches_are_held_one_at_a_time() {
    let weight = Param::new(realized(vec![0.5; 32 * 32], Device::cpu()).reshape([32, 32]));
    let backward = |seed: usize| {
        let x = Tensor::full([8, 32], seed as f64 / 64.0, ());
        x.matmul(&weight.get()).square().mean(..).backward().unwrap();
    };
    backward(0);
    backward(1);
    let few = lazy_nodes();
    (2..64).for_each(backward);
    assert!(lazy_nodes() < few + 300, "{} after {few}", lazy_nodes());
    assert!(weight.grad().unwrap().to_vec::<f32>().unwrap()[0] > 0.0);
}

#[test]
fn what_gradients_need_is_not_overwritten() {
    let w = Param::new(Tensor::ones([64], ()));
    let y = w.get() * realized(vec![3.0; 64], Device::cpu());
    y.realize().unwrap();
    y.sum(..).backward().unwrap();
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [3.0; 64]);

    let w = Tensor::from_vec(vec![2.0f32, 3.0, 1.0], [3], ()).with_requires_grad();
    let f = |x: &Tensor| (x + 1.0) * w.square() + x * &w + x;
    let y = f(&f(&realized(vec![0.0, 1.0, 2.0], Device::cpu())));
    y.realize().unwrap();
    assert_eq!(kiln::grad(&y.sum(..), &[&w]).remove(0).to_vec::<f32>().unwrap(), [52.0, 329.0, 47.0]);
}

/// The content of a cell is overwritten by the next, unless somebody holds it.
#[test]
fn what_a_cell_held_before_is_there_for_who_holds_it() {
    for device in devices() {
        let var = Var::new(realized(vec![0.0; 1024], device));
        let first = var.get();
        for step in 1..4 {
            let before = var.get();
            var.set(&before + 1.0).unwrap();
            assert_eq!(var.get().to_vec::<f32>().unwrap(), [step as f32; 1024], "{device}");
            assert_eq!(before.to_vec::<f32>().unwrap(), [step as f32 - 1.0; 1024], "{device}");
        }
        assert_eq!(first.to_vec::<f32>().unwrap(), [0.0; 1024], "{device}");
    }
}

/// Everybody looks at the loss before its gradients are taken. What lies in memory then is not computed again:
/// of a step's ten kernels fewer than two run twice.
#[test]
fn a_loss_may_be_looked_at_before_its_gradients_are_taken() {
    let kernels = |looked_at: bool| {
        let context = Context::new();
        with_context(&context, || {
            let model = Sequential::new().push(Linear::new(32, 64, ())).then(Tensor::gelu).push(Linear::new(
                64,
                8,
                (),
            ));
            let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.01));
            let x = Tensor::linspace(-1.0, 1.0, 16 * 32, ()).reshape([16, 32]);
            x.realize().unwrap();
            let mut losses = Vec::new();
            for _ in 0..6 {
                optimizer.zero_grad();
                let loss = model.forward(&x).square().mean(..);
                if looked_at {
                    losses.push(loss.item::<f32>().unwrap());
                }
                loss.backward().unwrap();
                optimizer.step().unwrap();
                if !looked_at {
                    losses.push(loss.item::<f32>().unwrap());
                }
            }
            assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
            context.counters().kernels_launched
        })
    };
    let (without, with) = (kernels(false), kernels(true));
    assert!(with < without + 2 * 6, "{with} kernels, {without} without");
}

#[test]
fn a_cache_counts_no_position_that_cannot_be_computed() {
    let (embedding, attention) =
        (Embedding::new(10, 8, ()), MultiheadAttention::new(8, 2, Default::default(), ()));
    let cache = attention.cache(1, 16);
    let _guard = kiln::no_grad();
    let see = |id: i64| {
        let x = embedding.forward(&Tensor::from_vec(vec![id], [1, 1], ()));
        attention.attend_cached(&x, &cache).to_vec::<f32>()
    };
    see(1).unwrap();
    let second = see(2).unwrap();
    assert_eq!(cache.len(), 2);
    assert!(see(99).is_err());
    assert_eq!(cache.len(), 2);
    cache.clear();
    see(1).unwrap();
    assert!(see(99).is_err());
    assert_eq!((see(2).unwrap(), cache.len()), (second, 2));
}
