//! Parameters, gradients and state side by side in memory: one kernel moves
//! all of them, and everything else is as if each lay alone.

use kiln::Span;
use kiln::nn::{Layer, Linear, ModuleExt, Param, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer, Sgd, SgdOpts, clip_grad_norm};
use kiln::prelude::*;
use kiln::unstable::ir::{Node, Op, Packing, Type};
use kiln::{Context, with_context};

fn deep(device: Device) -> Sequential {
    kiln::manual_seed(5);
    let layer = |model: Sequential, _| model.push(Linear::new(8, 8, device)).then(Tensor::tanh);
    (0..50).fold(Sequential::new(), layer)
}

/// Kernels that a step launches when the gradients are there already.
fn kernels_of_a_step(device: Device) -> u64 {
    let context = Context::new();
    with_context(&context, || {
        let model = deep(device);
        assert_eq!(model.parameters().len(), 100);
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let x = Tensor::linspace(-1.0, 1.0, 32, device).reshape([4, 8]);
        let mut launched = 0;
        for _ in 0..3 {
            optimizer.zero_grad();
            let loss = model.forward(&x).square().mean(..);
            loss.backward().unwrap();
            loss.realize().unwrap();
            let before = context.counters().kernels_launched;
            optimizer.step().unwrap();
            launched = context.counters().kernels_launched - before;
        }
        launched
    })
}

#[test]
fn a_hundred_parameters_move_in_one_kernel() {
    assert_eq!(kernels_of_a_step(Device::cpu()), 1);
    assert_eq!(kernels_of_a_step(Device::null()), 1);
    match Device::wgpu(0).probe() {
        Ok(_) => assert_eq!(kernels_of_a_step(Device::wgpu(0)), 1),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn clipping_takes_few_kernels_too() {
    let context = Context::new();
    with_context(&context, || {
        let model = deep(Device::cpu());
        let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.1));
        let x = Tensor::linspace(-1.0, 1.0, 32, ()).reshape([4, 8]);
        model.forward(&x).square().mean(..).backward().unwrap();
        optimizer.step().unwrap();
        let before = context.counters().kernels_launched;
        let norm = clip_grad_norm(&model.parameters(), 1e-3).unwrap();
        assert!(!norm.is_realized());
        optimizer.step().unwrap();
        assert!(context.counters().kernels_launched - before <= 3);
    });
}

/// Parameters of many shapes, some of which no vector divides.
fn params() -> Vec<Param> {
    let shapes: [&[usize]; 7] = [&[3, 5], &[64], &[1], &[16, 4], &[7], &[], &[2, 0]];
    let param = |(seed, shape): (usize, &&[usize])| {
        let count = shape.iter().product::<usize>();
        let value = |i: usize| ((i * 7 + seed * 3) % 11) as f32 / 5.0 - 1.0;
        Param::new(Tensor::from_vec((0..count).map(value).collect(), *shape, ()))
    };
    shapes.iter().enumerate().map(param).collect()
}

fn loss(params: &[Param], step: usize) -> Tensor {
    let term = |(i, param): (usize, &Param)| {
        // One of them has no gradient every other step.
        (i != 3 || step.is_multiple_of(2)).then(|| (param.get() * (i as f64 + 0.5)).sin().square().sum(..))
    };
    params.iter().enumerate().filter_map(term).reduce(|a, b| a + b).unwrap()
}

fn values(params: &[Param]) -> Vec<Vec<f32>> {
    params.iter().map(|param| param.get().to_vec().unwrap()).collect()
}

/// The parameters after some steps of optimizers.
fn trained(mut make: impl FnMut(&[Param]) -> Vec<Box<dyn Optimizer>>) -> Vec<Vec<f32>> {
    let params = params();
    let mut optimizers = make(&params);
    for step in 0..5 {
        params.iter().for_each(Param::zero_grad);
        loss(&params, step).backward().unwrap();
        optimizers.iter_mut().for_each(|optimizer| optimizer.step().unwrap());
        if step == 2 {
            // What is put in from outside is moved on from.
            params[1].set(&(params[1].get() * 0.5)).unwrap();
        }
    }
    values(&params)
}

#[test]
fn together_and_alone_give_the_same_bits() {
    let rate = |i: usize| if i < 4 { 0.05 } else { 0.2 };
    let adam = |i| AdamOpts::default().lr(rate(i)).weight_decay(0.01);
    let together = trained(|params| {
        let mut all = Adam::new(params[..4].to_vec(), adam(0));
        all.add_group(params[4..].to_vec(), adam(4)).unwrap();
        vec![Box::new(all)]
    });
    let alone = trained(|params| {
        let one = |(i, param): (usize, &Param)| -> Box<dyn Optimizer> {
            Box::new(Adam::new([param.clone()], adam(i)))
        };
        params.iter().enumerate().map(one).collect()
    });
    assert_eq!(together, alone);
    let sgd = || SgdOpts::default().lr(0.1).momentum(0.9).nesterov(true);
    let together = trained(|params| vec![Box::new(Sgd::new(params.to_vec(), sgd()))]);
    let alone = trained(|params| {
        params.iter().map(|p| -> Box<dyn Optimizer> { Box::new(Sgd::new([p.clone()], sgd())) }).collect()
    });
    assert_eq!(together, alone);
}

#[test]
fn what_a_user_holds_stays_as_it_is() {
    let params = params();
    let mut optimizer = Sgd::new(params.clone(), SgdOpts::default().lr(0.1));
    let mut kept = Vec::new();
    for step in 0..3 {
        optimizer.zero_grad();
        loss(&params, 2 * step).backward().unwrap();
        let (before, gradient) = (params[0].get(), params[1].grad().unwrap());
        optimizer.step().unwrap();
        kept.push((
            before.clone(),
            before.to_vec::<f32>().unwrap(),
            gradient.clone(),
            gradient.to_vec::<f32>().unwrap(),
        ));
        assert_ne!(params[0].get().to_vec::<f32>().unwrap(), before.to_vec::<f32>().unwrap());
    }
    for (param, values, gradient, slopes) in kept {
        assert_eq!(param.to_vec::<f32>().unwrap(), values);
        assert_eq!(gradient.to_vec::<f32>().unwrap(), slopes);
    }
}

#[test]
fn parameters_move_to_another_device_with_their_state() {
    let there = DeviceKind::Cpu.device(1);
    with_context(&Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]), || {
        let run = |moves: bool| {
            kiln::manual_seed(2);
            let model = Sequential::new().push(Linear::new(4, 6, ())).push(Linear::new(6, 2, ()));
            let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.1));
            for step in 0..4 {
                if moves && step == 2 {
                    model.to_device(there).unwrap();
                }
                let device = if moves && step >= 2 { there } else { Device::cpu() };
                let x = Tensor::linspace(-1.0, 1.0, 12, ()).reshape([3, 4]).to(device);
                optimizer.zero_grad();
                model.forward(&x).square().mean(..).backward().unwrap();
                optimizer.step().unwrap();
            }
            values(&model.parameters())
        };
        assert_eq!(run(true), run(false));
    });
}

#[test]
fn gradients_of_several_passes_add_up() {
    let params = params();
    loss(&params, 0).backward().unwrap();
    loss(&params, 1).backward().unwrap();
    loss(&params, 2).backward().unwrap();
    let once = self::params();
    loss(&once, 0).backward().unwrap();
    for (i, (sum, one)) in params.iter().zip(&once).enumerate() {
        let times = if i == 3 { 2.0 } else { 3.0 };
        let expected: Vec<f32> =
            one.grad().unwrap().to_vec::<f32>().unwrap().iter().map(|x| x * times).collect();
        let found = sum.grad().unwrap().to_vec::<f32>().unwrap();
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + b.abs())));
    }
}

/// A value and the pack it is a part of meet in one operation: the value must
/// be in its place before the operation runs.
#[test]
fn a_part_and_its_pack_meet() {
    let x = Tensor::linspace(0.0, 15.0, 16, ());
    x.realize().unwrap();
    let part = -&x;
    let pack = Op::Pack(Box::new(Packing { starts: vec![0, 16], shape: [32].into() }));
    let operands = [part.node().unwrap().clone(), (&x * 2.0).node().unwrap().clone()];
    let ty = Type::new([32], DType::F32, Device::cpu());
    let whole = Tensor::from_node(Node::new(pack, ty, operands.into_iter().collect(), Span::caller()));
    let sum = &part + whole.narrow(0, 16, 16);
    assert_eq!(sum.to_vec::<f32>().unwrap(), (0..16).map(|i| i as f32).collect::<Vec<_>>());
    let folded = (&part - whole.narrow(0, 0, 16)).abs().sum(..);
    assert_eq!(folded.item::<f32>().unwrap(), 0.0);
}

/// Tensors in memory whose elements are numbered on, of these extents on an axis.
fn parts(extents: &[usize], axis: usize, device: Device) -> Vec<Tensor> {
    let mut first = 0;
    let part = |&extent: &usize| {
        let mut dims = [3, 5, 2];
        dims[axis] = extent;
        let count: usize = dims.iter().product();
        first += count;
        let data = (first - count..first).map(|i| i as f32).collect();
        Tensor::from_vec(data, dims, device)
    };
    extents.iter().map(part).collect()
}

/// The tensors one after another, by a loop.
fn joined(parts: &[Tensor], axis: usize) -> Vec<f32> {
    let outer: usize = parts[0].shape()[..axis].iter().product();
    let values: Vec<Vec<f32>> = parts.iter().map(|part| part.to_vec().unwrap()).collect();
    let row =
        |values: &[f32], i: usize| values[i * values.len() / outer..(i + 1) * values.len() / outer].to_vec();
    (0..outer)
        .flat_map(|i| values.iter().flat_map(move |values| row(values, i)).collect::<Vec<f32>>())
        .collect()
}

fn with_cpu_and_wgpu(check: impl Fn(Device)) {
    check(Device::cpu());
    match Device::wgpu(0).probe() {
        Ok(_) => check(Device::wgpu(0)),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn many_tensors_are_joined_along_any_axis() {
    let (equal, ragged) = (vec![2; 70], (0..70).map(|i| i % 4).collect::<Vec<usize>>());
    with_cpu_and_wgpu(|device| {
        for axis in 0..3 {
            for extents in [&equal, &ragged] {
                let parts = parts(extents, axis, device);
                let expected = joined(&parts, axis);
                assert_eq!(
                    Tensor::cat(&parts, axis as i64).to_vec::<f32>().unwrap(),
                    expected,
                    "{device} {axis}"
                );
                let computed: Vec<Tensor> = parts.iter().map(|part| part + 1.0).collect();
                let sums = Tensor::cat(&computed, axis as i64) - 1.0;
                assert_eq!(sums.to_vec::<f32>().unwrap(), expected, "{device} {axis}, computed");
            }
        }
        let rows = parts(&[3; 40], 0, device);
        let stacked = Tensor::stack(&rows, 1);
        assert_eq!(stacked.shape()[..], [3, 40, 5, 2]);
        assert_eq!(stacked.i((.., 7)).to_vec::<f32>().unwrap(), rows[7].to_vec::<f32>().unwrap());
    });
}

#[test]
fn signed_zeros_and_nan_stay_what_they_are_among_many() {
    let parts: Vec<Tensor> = (0..50).map(|i| Tensor::from([if i == 7 { f32::NAN } else { -0.0 }])).collect();
    let found = Tensor::cat(&parts, 0).to_vec::<f32>().unwrap();
    assert!(found.iter().enumerate().all(|(i, x)| if i == 7 { x.is_nan() } else { x.is_sign_negative() }));
    let mixed = Tensor::cat(&[vec![Tensor::from([1i64]); 40], vec![Tensor::from([0.5f32])]].concat(), 0);
    assert_eq!(mixed.sum(..).item::<f32>().unwrap(), 40.5);
}

#[test]
fn each_of_many_has_its_own_gradient() {
    with_cpu_and_wgpu(|device| {
        for (axis, extents) in [(0, vec![2; 40]), (1, (0..40).map(|i| 1 + i % 3).collect())] {
            let params: Vec<Param> = parts(&extents, axis, device).into_iter().map(Param::new).collect();
            let whole = Tensor::cat(&params.iter().map(Param::get).collect::<Vec<_>>(), axis as i64);
            (&whole * &whole).sum(..).backward().unwrap();
            for (i, param) in params.iter().enumerate() {
                let expected: Vec<f32> =
                    param.get().to_vec::<f32>().unwrap().iter().map(|x| 2.0 * x).collect();
                assert_eq!(param.grad().unwrap().to_vec::<f32>().unwrap(), expected, "{device} {axis} {i}");
            }
        }
    });
}

#[test]
fn many_are_joined_within_a_loop() {
    let x = Tensor::from([1f32, 2.0]);
    let body = |c: &[Tensor]| {
        let parts: Vec<Tensor> = (0..40).map(|i| &c[0] * f64::from(i)).collect();
        vec![Tensor::cat(&parts, 0).reshape([40, 2]).sum(0) / 780.0]
    };
    let found = kiln::fori_loop(3, &[x], |_, c| body(c)).remove(0);
    assert_eq!(found.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

/// What joining n tensors moves is what they are, and few are still joined by one kernel.
#[test]
fn joining_many_moves_each_once() {
    for device in [Device::cpu(), Device::null()] {
        let join = |count| Tensor::stack(&parts(&vec![4; count], 0, device), 0);
        assert_eq!(join(12).plan().unwrap().kernels.len(), 1);
        for count in [100, 400] {
            let plan = join(count).plan().unwrap();
            let bytes = (count * 4 * 5 * 2 * 4) as u64;
            assert_eq!((plan.bytes_loaded(), plan.bytes_stored()), (bytes, bytes), "{device}");
            assert!(plan.kernels.len() <= count, "{device}: {} kernels", plan.kernels.len());
        }
    }
}
