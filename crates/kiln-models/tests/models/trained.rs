//! Models that the script trains for a step.

use kiln::nn::{Layer, Module, ModuleExt};
use kiln::optim::clip_grad_norm;
use kiln::prelude::*;
use kiln_models::{ActionExpert, Checkpoint, LoadModelOpts, UNet};

use crate::record::{Recorded, assert_near, devices, recorded};

/// The script's numbers.
pub fn wave<const N: usize>(shape: [usize; N], device: Device) -> Tensor {
    let numel = shape.iter().product();
    Tensor::from_vec(
        (0..numel).map(|i: usize| (0.1 * i as f64).sin() as f32).collect::<Vec<f32>>(),
        shape,
        device,
    )
}

fn load<M>(
    name: &str,
    load: impl Fn(&Checkpoint, LoadModelOpts) -> kiln_models::Result<M>,
    device: Device,
) -> M {
    let checkpoint = Checkpoint::open(recorded(name).saved(name)).unwrap();
    load(&checkpoint, LoadModelOpts::default().device(device)).unwrap()
}

/// The output, the loss and the norm of all gradients.
fn check(record: &Recorded, model: &dyn Module, output: &Tensor, what: &str) {
    assert_near(output, &record.output, what);
    let loss = output.square().mean(..);
    loss.backward().unwrap();
    let norm = clip_grad_norm(&model.parameters(), f64::INFINITY).unwrap();
    for (found, key) in [(loss, "loss"), (norm, "gradient_norm")] {
        let (found, expected) =
            (f64::from(found.item::<f32>().unwrap()), record.value(key).as_f64().unwrap());
        assert!((found - expected).abs() < 1e-5 * expected, "{what}, {key}: {found}, expected {expected}");
    }
}

#[test]
fn a_unet_computes_and_learns_what_torch_does() {
    let timed = devices().into_iter().map(|device| (device, "unet_timed"));
    for (device, name) in timed.chain([(Device::cpu(), "unet")]) {
        let model = load(name, UNet::load, device);
        let times = Tensor::from([3.0f32, 250.0]).to(device);
        let noise = model.denoise(&wave([2, 3, 8, 8], device), &times);
        check(&recorded(name), &model, &noise, &format!("{name} on {device}"));
    }
}

#[test]
fn an_action_expert_computes_and_learns_what_torch_does() {
    for device in devices() {
        let model = load("expert", ActionExpert::load, device);
        let [actions, time, seen] = [[2, 6, 5], [2, 1, 32], [2, 4, 7]].map(|shape| wave(shape, device));
        let moves = model.forward(&actions, &time, &seen);
        check(&recorded("expert"), &model, &moves, &format!("expert on {device}"));
    }
}

#[test]
fn wrong_inputs_are_invalid_tensors() {
    let (unet, expert) =
        (load("unet_timed", UNet::load, Device::cpu()), load("expert", ActionExpert::load, Device::cpu()));
    let error = |x: Tensor| x.check().unwrap_err().to_string();
    // Of odd height, so that the way back does not fit.
    assert!(error(unet.forward(&Tensor::zeros([1, 3, 7, 8], ()))).contains("cat"));
    assert!(error(unet.forward(&Tensor::zeros([1, 4, 8, 8], ()))).contains("conv2d"));
    assert!(
        error(unet.denoise(&Tensor::zeros([2, 3, 8, 8], ()), &Tensor::zeros([3], ())))
            .contains("[2, 8, 8, 8]")
    );
    let [actions, time] = [[1, 6, 5], [1, 1, 31]].map(|shape| wave(shape, Device::cpu()));
    assert!(error(expert.forward(&actions, &time, &actions)).contains("31"));
}
