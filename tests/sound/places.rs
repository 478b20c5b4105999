//! What is put somewhere stays there.

use super::*;

fn two_devices() -> std::sync::Arc<Context> {
    Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)])
}

#[test]
fn a_module_is_sent_once() {
    let context = two_devices();
    with_context(&context, || {
        let model = Sequential::new().push(Linear::new(8, 8, ())).push(BatchNorm::new(8, ()));
        model.parameters().iter().for_each(|param| _ = param.get().realize().unwrap());
        model.to_device(DeviceKind::Cpu.device(1)).unwrap();
        model.eval();
        let x = Tensor::ones([2, 8], DeviceKind::Cpu.device(1));
        model.forward(&x).realize().unwrap();
        let sent = context.counters().bytes_transferred();
        for _ in 0..3 {
            model.forward(&x).realize().unwrap();
        }
        assert_eq!(context.counters().bytes_transferred(), sent);
        assert!(
            model.parameters().iter().all(|param| param.get().is_realized() || param.shape().numel() == 8)
        );
    });
}

#[test]
fn a_transfer_that_is_held_happens_once() {
    let context = two_devices();
    with_context(&context, || {
        let there = realized(vec![1.0; 100], Device::cpu()).to(DeviceKind::Cpu.device(1));
        for factor in 1..4 {
            assert_eq!((&there * f64::from(factor)).to_vec::<f32>().unwrap(), [factor as f32; 100]);
        }
        assert!(there.is_realized());
        // There once, and back three times.
        let counters = context.counters();
        assert_eq!(
            (counters.bytes_between_devices + counters.bytes_to_device, counters.bytes_to_host),
            (400, 1200)
        );
    });
}

#[test]
fn a_fresh_layer_draws_its_weights_once() {
    let context = Context::new();
    with_context(&context, || {
        let layer = Linear::new(64, 64, ());
        let x = Tensor::ones([1, 64], ());
        let first = layer.forward(&x).to_vec::<f32>().unwrap();
        assert!(layer.weight.get().is_realized());
        let moved = context.counters().bytes_moved;
        assert_eq!(layer.forward(&x).to_vec::<f32>().unwrap(), first);
        layer.forward(&x).to_vec::<f32>().unwrap();
        // The weights are read, and not drawn: 16 KiB and little else, twice.
        assert!(
            context.counters().bytes_moved - moved < 2 * 17_500,
            "{}",
            context.counters().bytes_moved - moved
        );
    });
}

#[test]
fn another_type_is_converted_to_once() {
    let layer = Linear::new(16, 16, ());
    layer.to_dtype(DType::BF16).unwrap();
    layer.forward(&Tensor::ones([1, 16], DType::BF16)).realize().unwrap();
    assert!(layer.weight.get().is_realized() && layer.weight.dtype() == DType::BF16);
}

#[test]
fn a_device_that_is_not_there_is_an_error_at_once() {
    let layer = Linear::new(4, 4, ());
    let before = layer.weight.get().to_vec::<f32>().unwrap();
    let error = layer.to_device(Device::cuda(9)).unwrap_err().to_string();
    assert!(error.contains("cuda:9"), "{error}");
    assert_eq!(
        (layer.check_device().unwrap(), layer.weight.get().to_vec::<f32>().unwrap()),
        (Device::cpu(), before)
    );
}

#[test]
fn gradients_move_with_their_parameters() {
    with_context(&two_devices(), || {
        let there = DeviceKind::Cpu.device(1);
        let layer = Linear::new(4, 4, ());
        let mut optimizer = Sgd::new(layer.parameters(), SgdOpts::default().lr(0.1));
        layer.forward(&Tensor::ones([1, 4], ())).sum(..).backward().unwrap();
        layer.to_device(there).unwrap();
        assert_eq!(layer.weight.grad().unwrap().device(), there);
        layer.forward(&Tensor::ones([1, 4], there)).sum(..).backward().unwrap();
        let before = layer.weight.get().to_vec::<f32>().unwrap();
        optimizer.step().unwrap();
        assert_eq!(layer.weight.grad().unwrap().to_vec::<f32>().unwrap(), [2.0; 16]);
        let after = layer.weight.get().to_vec::<f32>().unwrap();
        assert!(before.iter().zip(&after).all(|(b, a)| (b - 0.2 - a).abs() < 1e-6));
    });
}

#[test]
fn errors_name_the_line_that_moved_the_module() {
    with_context(&two_devices(), || {
        let layer = Linear::new(4, 4, ());
        layer.weight.get().realize().unwrap();
        let line = line!() + 1;
        layer.to_device(DeviceKind::Cpu.device(1)).unwrap();
        let forward = layer.forward(&Tensor::ones([1, 4], DeviceKind::Cpu.device(1)));
        let error = kiln::deny_transfers(|| forward.realize().map(drop)).unwrap_err().to_string();
        assert!(error.contains(&format!("{}:{line}", file!())), "{error}");
    });
}

#[test]
fn a_module_without_memory_gets_some() {
    let layer = kiln::with_device(Device::meta(), || Linear::new(4, 4, ()));
    let error = layer.to_device(Device::cpu()).unwrap_err().to_string();
    assert!(error.contains("to_empty") && error.contains(file!()), "{error}");
    layer.to_empty(Device::cpu()).unwrap();
    assert_eq!(layer.forward(&Tensor::ones([1, 4], ())).to_vec::<f32>().unwrap(), [0.0; 4]);
}

#[test]
fn gradients_on_two_devices_are_clipped_together() {
    with_context(&two_devices(), || {
        let there = DeviceKind::Cpu.device(1);
        let params = [Param::new(Tensor::zeros([1], ())), Param::new(Tensor::zeros([1], there))];
        params[0].set_grad(Some(&Tensor::full([1], 3.0, ()))).unwrap();
        params[1].set_grad(Some(&Tensor::full([1], 4.0, there))).unwrap();
        let norm = kiln::optim::clip_grad_norm(&params, 1.0).unwrap();
        assert_eq!(norm.item::<f32>().unwrap(), 5.0);
        let scaled = params.map(|param| param.grad().unwrap().to_vec::<f32>().unwrap()[0]);
        assert!((scaled[0] - 0.6).abs() < 1e-5 && (scaled[1] - 0.8).abs() < 1e-5, "{scaled:?}");
    });
}
