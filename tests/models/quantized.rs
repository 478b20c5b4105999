//! Quantized weights: what they hold, how they are computed with on every device, and what they take.

use kiln::nn::{
    Embedding, Layer, Linear, LoraOpts, ModuleExt, MultiheadAttention, Param, QuantizeOpts, Sequential,
    add_lora, merge_lora,
};
use kiln::optim::{AdamW, AdamWOpts, Optimizer};
use kiln::opts::Reduction;
use kiln::prelude::*;
use kiln::{Context, Quantization, QuantizedTensor, Result, with_context};

/// Normal numbers in rows of whole blocks.
fn weight(rows: usize, row: usize, device: Device) -> Tensor {
    kiln::manual_seed(7);
    Tensor::randn([rows, row], device)
}

fn devices() -> Vec<Device> {
    let all = [Device::cpu(), Device::wgpu(0), Device::cuda(0)];
    all.into_iter().filter(|device| device.probe().is_ok()).collect()
}

/// The greatest errors in each block: half a step, and what rounding the scale to 16 bits adds.
fn bound(quantization: Quantization, weight: &[f32]) -> Vec<f32> {
    let each = |block: &[f32]| {
        let (low, high) = block.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        let most = high.max(-low);
        match quantization {
            Quantization::Q8_0 => most / 127.0 * 0.57,
            // The end of the range whose sign has one code less is a whole step off.
            Quantization::Q4_0 => most / 8.0 * 1.01,
            Quantization::Q4_1 => (high - low) / 15.0 * 0.52 + most * 1e-3,
        }
    };
    weight.chunks(32).flat_map(|block| [each(block); 32]).collect()
}

#[test]
fn numbers_are_the_nearest_that_a_block_can_have_on_every_device() -> Result<()> {
    for device in devices() {
        let weight = weight(3, 96, device);
        let exact: Vec<f32> = weight.to_vec()?;
        for quantization in Quantization::ALL {
            let packed = QuantizedTensor::quantize(&weight, quantization)?;
            let found: Vec<f32> = packed.dequantize().to_vec()?;
            let bounds = bound(quantization, &exact);
            let near = exact.iter().zip(&found).zip(bounds).all(|((a, b), bound)| (a - b).abs() <= bound);
            assert!(near, "{quantization:?} on {device}");
            let again = QuantizedTensor::quantize(&packed.dequantize(), quantization)?;
            let again: Vec<f32> = again.dequantize().to_vec()?;
            let same = found.iter().zip(&again).all(|(a, b)| (a - b).abs() <= 2e-3 * a.abs().max(0.1));
            assert!(same, "{quantization:?} on {device}: quantized again");
        }
    }
    Ok(())
}

#[test]
fn a_product_is_one_kernel_that_reads_packed_bytes() -> Result<()> {
    for device in devices() {
        // Few and many rows, and depths that a product walks in several pieces.
        let sizes = [(1, 24, 64), (5, 24, 64), (64, 24, 64), (1, 40, 1056), (70, 72, 1056)];
        let sizes = if device == Device::cpu() { &sizes[..] } else { &sizes[..1] };
        for (quantization, &(rows, out, row)) in
            Quantization::ALL.into_iter().flat_map(|q| sizes.iter().map(move |size| (q, size)))
        {
            with_context(&Context::new(), || product(quantization, [rows, out, row], device))?;
        }
    }
    Ok(())
}

fn product(quantization: Quantization, [rows, out, row]: [usize; 3], device: Device) -> Result<()> {
    let packed = QuantizedTensor::quantize(&weight(out, row, device), quantization)?;
    let x = Tensor::randn([rows, row], device);
    x.realize()?;
    let y = x.linear(&packed.dequantize(), None);
    let plan = y.plan()?;
    assert_eq!(plan.kernels.len(), 1, "{quantization:?}, {rows} rows on {device}:\n{plan}");
    if device == Device::cpu() && row > 64 {
        // Not by a program that interprets the expression, which products of less depth are.
        let source = plan.kernels[0].source()?;
        assert!(source.contains("of blocks of 32"), "{quantization:?}, {rows} rows:\n{source}");
    }
    let read = (packed.bytes() + rows * row * 4) as u64;
    assert!(plan.bytes_loaded() <= read, "{quantization:?}, {rows} rows on {device}:\n{plan}");
    let exact = |x: &Tensor| x.to(Device::cpu()).double();
    let expected = exact(&x).linear(&exact(&packed.dequantize()), None);
    let error = (exact(&y) - &expected).abs().max(..).item::<f64>()?;
    assert!(error < 1e-5 * (row as f64).sqrt(), "{quantization:?}, {rows} rows on {device}: {error}");
    // Along the other axis, as gradients are.
    let back = exact(&y.matmul(&packed.dequantize())) - exact(&y).matmul(&exact(&packed.dequantize()));
    let error = back.abs().max(..).item::<f64>()?;
    assert!(error < 1e-3, "{quantization:?}, back to {rows} rows on {device}: {error}");
    Ok(())
}

#[test]
fn ties_go_away_from_zero_as_ggml_has_them_and_zeros_stay() -> Result<()> {
    let mut numbers = vec![0.0f32; 64];
    numbers[..5].copy_from_slice(&[127.0, 0.5, -0.5, 2.5, -2.5]);
    for device in devices() {
        let packed =
            QuantizedTensor::quantize(&Tensor::from_slice(&numbers, [64], device), Quantization::Q8_0)?;
        let found: Vec<f32> = packed.dequantize().to_vec()?;
        assert_eq!(found[..5], [127.0, 1.0, -1.0, 3.0, -3.0], "{device}");
        assert_eq!(found[5..], [0.0; 59], "{device}");
    }
    Ok(())
}

#[test]
fn gradients_flow_through_quantized_weights_to_inputs() -> Result<()> {
    for device in devices() {
        let layer = Linear::without_bias(32, 8, device);
        layer.weight.quantize(Quantization::Q4_0)?;
        let x = Tensor::randn([3, 32], device).with_requires_grad();
        let loss = layer.forward(&x).square().sum(..);
        let gradient = kiln::grad(&loss, &[&x]).remove(0);
        let w = layer.weight.get();
        let expected = x.linear(&w, None).matmul(&w) * 2.0;
        assert!((gradient - expected).abs().max(..).item::<f32>()? < 1e-4, "{device}");
        assert!(!layer.weight.requires_grad() && layer.weight.grad().is_none());
    }
    Ok(())
}

#[test]
fn a_quantized_module_moves_converts_and_comes_back() -> Result<()> {
    let net = Sequential::new().push(Linear::new(32, 64, ())).push(Linear::new(64, 4, ()));
    let report = net.quantize(Quantization::Q8_0, QuantizeOpts::default())?;
    assert_eq!(report.weights.iter().map(|w| &w.name[..]).collect::<Vec<_>>(), ["0.weight", "1.weight"]);
    assert!(report.weights.iter().all(|w| w.error > 0.0 && w.error < 0.01), "{report}");
    assert!(net.to_string().contains("weight [64, 32] Q8_0"), "{net}");
    let x = Tensor::randn([2, 32], ());
    let expected: Vec<f32> = net.forward(&x).to_vec()?;
    for device in devices() {
        net.to_device(device)?;
        let weight = net.parameter("0.weight").unwrap();
        assert_eq!((weight.device(), weight.quantized().map(|w| w.device())), (device, Some(device)));
        let found: Vec<f32> = net.forward(&x.to(device)).to_vec()?;
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{device}");
    }
    net.to_device(Device::cpu())?;
    net.to_dtype(DType::BF16)?;
    assert_eq!(net.forward(&x.to_dtype(DType::BF16)).dtype(), DType::BF16);
    net.to_dtype(DType::F32)?;
    for param in net.parameters() {
        param.dequantize()?;
        assert!(param.quantized().is_none());
    }
    // The biases were rounded to 16 bits; the packed numbers were not.
    let found: Vec<f32> = net.forward(&x).to_vec()?;
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 5e-3));
    Ok(())
}

#[test]
fn rows_of_a_quantized_table_are_read_packed() -> Result<()> {
    for device in devices() {
        with_context(&Context::new(), || -> Result<()> {
            let table = Embedding::new(1000, 64, device);
            let ids = Tensor::from_vec(vec![3i64, 999, 3], [3], device);
            let exact: Vec<f32> = table.forward(&ids).to_vec()?;
            table.weight.quantize(Quantization::Q8_0)?;
            let rows = table.forward(&ids);
            let plan = rows.plan()?;
            assert!(plan.bytes_moved() < 8 << 10, "{device}:\n{plan}");
            let found: Vec<f32> = rows.to_vec()?;
            assert!(found.iter().zip(&exact).all(|(a, b)| (a - b).abs() < 0.02), "{device}");
            Ok(())
        })?;
    }
    Ok(())
}

/// What unpacks is as often as layers there are, and a tied table is both looked up and multiplied by.
#[test]
fn layers_of_one_shape_and_a_tied_head_stay_packed() -> Result<()> {
    for (device, quantization) in devices().into_iter().flat_map(|d| Quantization::ALL.map(|q| (d, q))) {
        with_context(&Context::new(), || -> Result<()> {
            let table = Embedding::new(512, 96, device);
            let layers: Vec<Linear> = (0..4).map(|_| Linear::without_bias(96, 96, device)).collect();
            let parameters = layers.iter().map(|layer| &layer.weight).chain([&table.weight]);
            parameters.clone().try_for_each(|weight| weight.quantize(quantization))?;
            let packed: usize =
                parameters.map(|weight| weight.quantized().map_or(0, |own| own.bytes())).sum();
            let x = table.forward(&Tensor::from_vec(vec![3i64, 500], [1, 2], device));
            let x = layers.iter().fold(x, |x, layer| layer.forward(&x));
            let logits = x.linear(&table.weight.get(), None);
            let plan = logits.plan()?;
            // Beside the weights, activations of two rows; the table is counted twice.
            assert!(plan.bytes_moved() < packed as u64 + (48 << 10), "{quantization:?} on {device}:\n{plan}");
            assert!(plan.kernels.len() <= 6, "{quantization:?} on {device}:\n{plan}");
            let exact = |x: &Tensor| x.to(Device::cpu()).double();
            let held = |weight: &Param| exact(&weight.get());
            let ids = Tensor::from_vec(vec![3i64, 500], [1, 2], ());
            let x = ids.embedding(&held(&table.weight));
            let x = layers.iter().fold(x, |x, layer| x.linear(&held(&layer.weight), None));
            let error =
                (exact(&logits) - x.linear(&held(&table.weight), None)).abs().max(..).item::<f64>()?;
            assert!(error < 1e-3, "{quantization:?} on {device}: {error}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn weights_stay_packed_whoever_reads_them() -> Result<()> {
    for device in devices() {
        let layer = Linear::without_bias(256, 512, device);
        layer.weight.quantize(Quantization::Q8_0)?;
        let bytes = layer.weight.quantized().map_or(0, |packed| packed.bytes() as u64);
        let moved = || -> Result<u64> {
            let x = Tensor::ones([1, 256], device);
            x.realize()?;
            Ok(layer.forward(&x).plan()?.bytes_moved())
        };
        let before = moved()?;
        assert!(before < bytes + 8192, "{device}: {before}");
        let numbers = layer.weight.get();
        numbers.realize()?;
        assert_eq!(moved()?, before, "{device}: whoever reads the numbers holds them, and nobody else");
        // Gradients by the input need the numbers too.
        let x = Tensor::ones([1, 256], device).with_requires_grad();
        let loss = layer.forward(&x).square().sum(..);
        loss.backward()?;
        kiln::realize(&[&loss, &x.grad().expect("a gradient")])?;
        assert!(!layer.weight.get().is_realized(), "{device}");
        assert_eq!(moved()?, before, "{device}: after a gradient");
    }
    Ok(())
}

#[test]
fn a_quantized_parameter_is_not_set() -> Result<()> {
    let layer = Linear::without_bias(32, 1, ());
    layer.weight.quantize(Quantization::Q4_1)?;
    let error = layer.weight.set(&Tensor::ones([1, 32], ())).unwrap_err().to_string();
    assert!(
        error.contains("a parameter that is not quantized") && error.contains("tests/models/quantized.rs:"),
        "{error}"
    );
    layer.weight.set_requires_grad(true);
    assert!(!layer.weight.requires_grad());
    layer.weight.dequantize()?;
    layer.weight.set(&Tensor::ones([1, 32], ()))?;
    assert_eq!(layer.weight.get().to_vec::<f32>()?, [1.0; 32]);
    Ok(())
}

#[test]
fn adapters_train_on_quantized_weights_and_merge() -> Result<()> {
    kiln::manual_seed(0);
    for device in devices() {
        let model = Sequential::new().push(Linear::new(32, 16, device));
        model.quantize(Quantization::Q4_0, Default::default())?;
        let trained = add_lora(&model, LoraOpts::default().rank(4), &["0"])?;
        let (x, goal) = (Tensor::randn([24, 32], device), Tensor::randn([24, 16], device));
        Tensor::cat(&[&x, &goal], 1).realize()?;
        let weight = model.parameter("0.weight").expect("a weight");
        let frozen: Vec<f32> = weight.get().to_vec()?;
        let loss = || model.forward(&x).mse_loss(&goal, Reduction::Mean);
        let mut optimizer = AdamW::new(trained, AdamWOpts::default().lr(0.02));
        let before = loss().item::<f32>()?;
        for _ in 0..20 {
            optimizer.zero_grad();
            loss().backward()?;
            optimizer.step()?;
        }
        let after = loss().item::<f32>()?;
        assert!(after < 0.9 * before, "{device}: {before} to {after}");
        assert_eq!(weight.get().to_vec::<f32>()?, frozen, "{device}");
        let adapted = model.forward(&x).realize()?.clone();
        merge_lora(&model)?;
        assert!((model.forward(&x) - adapted).abs().max(..).item::<f32>()? < 1e-4, "{device}");
        assert_eq!(model.parameters().len(), 2);
    }
    Ok(())
}

#[test]
fn adapters_find_the_layers_of_a_model_by_name() -> Result<()> {
    let attention = MultiheadAttention::new(8, 2, Default::default(), ());
    let x = Tensor::linspace(-1.0, 1.0, 3 * 8, ()).reshape([1, 3, 8]);
    let before = attention.forward(&x).to_vec::<f32>()?;
    let trained = add_lora(&attention, LoraOpts::default().rank(2), &["q_proj", "v_proj"])?;
    // It does nothing yet, and nothing else is trained.
    assert_eq!(attention.forward(&x).to_vec::<f32>()?, before);
    let named = attention.named_parameters();
    let of_adapters: Vec<&str> =
        named.iter().filter(|(_, param)| param.requires_grad()).map(|(name, _)| name.as_str()).collect();
    let expected =
        ["q_proj.lora_A.weight", "q_proj.lora_B.weight", "v_proj.lora_A.weight", "v_proj.lora_B.weight"];
    assert_eq!(of_adapters, expected);
    trained[1].set(&Tensor::ones([8, 2], ()))?;
    assert_ne!(attention.forward(&x).to_vec::<f32>()?, before);

    // A target that is not there, the end of a word, a rank of 0: nothing changes.
    for (opts, target) in [
        (LoraOpts::default(), "gate"),
        (LoraOpts::default(), "proj"),
        (LoraOpts::default().rank(0), "k_proj"),
    ] {
        let error = add_lora(&attention, opts, &["k_proj", target]).expect_err(target);
        assert!(error.to_string().contains("quantized.rs"), "{error}");
        assert_eq!(attention.parameters().len(), named.len());
    }
    Ok(())
}
