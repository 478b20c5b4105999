//! How exactly products of 32-bit floats are computed, as the process says. The one test
//! here has a process of its own, since the setting is the process's.

use kiln::prelude::*;
use kiln::{
    Precision, Quantization, QuantizedTensor, float32_matmul_precision, set_float32_matmul_precision,
};

/// Integers from -2 to 2.
fn small<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    let count = dims.iter().product();
    let value = |i: usize| ((i * 7 + i / 11 * 3 + seed) % 5) as f32 - 2.0;
    let x = Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, device);
    x.realize().expect("a leaf");
    x
}

type Product = fn(Device) -> Tensor;

/// Operands that lie in memory in every way, copied and computed.
const PRODUCTS: &[Product] = &[
    |d| small([64, 64], 1, d).matmul(&small([64, 96], 2, d)),
    |d| small([68, 80], 1, d).t().matmul(&small([96, 68], 2, d).t()),
    |d| small([3, 37, 29], 1, d).matmul(&small([3, 29, 45], 2, d)).relu(),
    |d| small([64, 40], 1, d).exp2().matmul(&small([40, 72], 2, d)),
    |d| small([1, 4, 12, 12], 1, d).conv2d(&small([16, 4, 3, 3], 2, d), None, ConvOpts::default().padding(1)),
];

/// 64 times what a product makes of a number and 1.
fn sum_of_64(number: f32, device: Device) -> Vec<f32> {
    let full = |x: f32, dims: [usize; 2]| {
        let leaf = Tensor::from_vec(vec![x; dims[0] * dims[1]], dims, device);
        leaf.realize().expect("a leaf");
        leaf
    };
    full(number, [16, 64]).matmul(&full(1.0, [64, 16])).to_vec().expect("a product")
}

/// Products within linear algebra are as exact as they can be, whatever is wanted of others.
fn systems_are_solved_exactly() {
    let a = small([70, 70], 1, Device::cpu());
    let lower = a.tril(0);
    for y in [a.solve(&lower), a.det(), lower.solve_triangular(&a, Default::default()), a.cholesky(false)] {
        let report = y.plan().expect("a plan");
        let kernels = report.kernels.iter().filter_map(|kernel| kernel.work().kernel());
        let products: Vec<Precision> =
            kernels.filter_map(|kernel| kernel.contraction().map(|product| product.precision)).collect();
        assert!(!products.is_empty() && products.iter().all(|&p| p == Precision::Highest), "{products:?}");
    }
}

/// What rows times quantized weights may be off by: at medium precision their elements are rounded to one of 255
/// values a block where the processor multiplies bytes, one row's everywhere, and many rows' to 8 significant bits
/// where it has a matrix unit.
fn rows_times_quantized_weights(precision: Precision) {
    let (lines, k) = (40, 608);
    let number = |i: usize| (0.7 * i as f32).sin() * (1 + i % 5) as f32;
    let alone: Vec<Vec<f32>> = [1, 2, 7, 40]
        .into_iter()
        .flat_map(|rows| Quantization::ALL.map(|quantization| (rows, quantization)))
        .map(|(rows, quantization)| {
            let x: Vec<f32> = (0..rows * k).map(number).collect();
            let packed =
                QuantizedTensor::quantize(&(small([lines, k], 3, Device::cpu()) * 0.11), quantization)
                    .expect("packed");
            // In place, and computed before and after.
            let left = Tensor::from_slice(&x, [rows, k], ());
            let products = [
                left.linear(&packed.dequantize(), None),
                ((&left * 2.0).exp().log().linear(&packed.dequantize(), None) + 1.0) * 0.5 - 0.5,
            ];
            let rounds = precision == Precision::Medium;
            if rows == 1 {
                let source = products[0].plan().expect("a plan").kernels[0].source().expect("a text");
                assert_eq!(source.contains("rounded to 8 bits"), rounds, "{quantization:?}: {source}");
            }
            let weights: Vec<f32> = packed.dequantize().to_vec().expect("numbers");
            let found = products.map(|y| y.to_vec::<f32>().expect("a product"));
            for (at, &found) in found.iter().flat_map(|found| found.iter().enumerate()) {
                let (x, w) = (&x[at / lines * k..][..k], &weights[at % lines * k..][..k]);
                let terms = || w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x));
                let (right, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                let lost = w.chunks(32).zip(x.chunks(32)).map(|(w, x)| {
                    let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
                    w.iter().map(|w| f64::from(w.abs() * most) / 254.0).sum::<f64>()
                });
                let lost = if rows < 16 { lost.sum() } else { lost.sum::<f64>().max(size / 128.0) };
                let bound = 2e-6 * size + if rounds { lost } else { 0.0 };
                let error = (f64::from(found) - right).abs();
                let case = format!("{rows} rows, {quantization:?}, {precision:?}, {at}");
                assert!(error <= bound, "{case}: {error}, at most {bound}");
            }
            found[0][..lines].to_vec()
        })
        .collect();
    // A row's bits do not depend on how many others there are.
    let (few, more) = (&alone[3..6], &alone[6..9]);
    assert!(few.len() == Quantization::ALL.len() && few == more, "{precision:?}");
}

/// Products of one row with packed weights are one launch, with the bits that each has alone.
fn joint_products_of_a_row(precision: Precision) {
    let k = 608;
    let x = Tensor::from_vec((0..k).map(|i| (0.3 * i as f32).cos()).collect::<Vec<_>>(), [1, k], ());
    for quantization in Quantization::ALL {
        let weight = |lines: usize| {
            let numbers = small([lines, k], lines, Device::cpu()) * 0.11;
            QuantizedTensor::quantize(&numbers, quantization).expect("packed").dequantize()
        };
        let products = || [600, 33, 192].map(|lines| x.linear(&weight(lines), None));
        let (together, alone) = (products(), products());
        let before = kiln::context().counters().kernels_launched;
        realize(&together.each_ref()).expect("products");
        let launched = kiln::context().counters().kernels_launched - before;
        assert_eq!(launched, 1, "{quantization:?}, {precision:?}");
        let bits = |y: &Tensor| y.to_vec::<f32>().expect("a product").iter().map(|y| y.to_bits()).collect();
        for (one, other) in together.iter().zip(&alone) {
            let (one, other): (Vec<u32>, Vec<u32>) = (bits(one), bits(other));
            assert!(one == other, "{quantization:?}, {precision:?}");
        }
        // A gated pair: the second product reads the first at its own elements.
        let [gate, up] = [7, 9].map(|seed| {
            let numbers = small([333, k], seed, Device::cpu()) * 0.11;
            QuantizedTensor::quantize(&numbers, quantization).expect("packed").dequantize()
        });
        let [gate, up] = [gate, up].map(|weight| x.linear(&weight, None));
        let gated = gate.silu() * &up;
        let before = kiln::context().counters().kernels_launched;
        gated.realize().expect("a gated pair");
        assert_eq!(kiln::context().counters().kernels_launched - before, 1);
        let error = (gated - gate.realize().expect("a gate").silu() * up.realize().expect("a factor")).abs();
        assert!(error.max(..).item::<f32>().expect("an error") < 1e-4, "{quantization:?}, {precision:?}");
    }
}

/// What products of many rows may be off by: at medium precision both factors may have 8 significant bits.
fn many_rows_on_the_cpu(precision: Precision) {
    let (m, n, k) = (33, 50, 131);
    let numbers = |count: usize, by: f64| -> Vec<f32> {
        (0..count).map(|i| ((by * i as f64).sin() * (1 + i % 7) as f64) as f32).collect()
    };
    let (x, y) = (numbers(m * k, 0.7), numbers(n * k, 0.31));
    let (a, b) = (Tensor::from_slice(&x, [m, k], ()), Tensor::from_slice(&y, [n, k], ()));
    let b_by_columns = b.t().contiguous();
    // Rows and columns of either factor may be what lies together, and a factor may be computed.
    for product in [a.matmul(&b.t()), a.matmul(&b_by_columns), (&a * 1.0).t().contiguous().t().matmul(&b.t())]
    {
        for (at, found) in product.to_vec::<f32>().expect("a product").into_iter().enumerate() {
            let (x, y) = (&x[at / n * k..][..k], &y[at % n * k..][..k]);
            let terms = x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y));
            let (right, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let bits = if precision == Precision::Medium { 8 } else { 20 };
            let error = (f64::from(found) - right).abs();
            assert!(error <= size / f64::from(1 << bits), "{precision:?}, {at}: {error} of {size}");
        }
    }
}

#[test]
fn the_setting_says_how_exactly_32_bit_floats_are_multiplied() {
    assert_eq!(float32_matmul_precision(), Precision::Highest);
    let text = || PRODUCTS[0](Device::cpu()).plan().expect("a plan").to_string();
    let source = |d: Device| PRODUCTS[0](d).plan().expect("a plan").kernels[0].source().expect("a text");
    let exact = text();
    let device = Some(Device::cuda(0)).filter(|device| device.name().is_ok());
    if device.is_none() {
        println!("skipped in part: no CUDA device");
    }
    // One more than what 11, and what 8 significant bits hold.
    let (beyond_tf32, beyond_bf16) = (1.0 + f32::powi(2.0, -12), 1.0 + f32::powi(2.0, -9));
    let settings = [
        (Precision::Highest, None, [64.0 * beyond_tf32, 64.0 * beyond_bf16]),
        (Precision::High, Some("mma_tf32("), [64.0, 64.0 * beyond_bf16]),
        (Precision::Medium, Some("mma_bf16("), [64.0, 64.0]),
    ];
    for (precision, call, [tf32, bf16]) in settings {
        set_float32_matmul_precision(precision);
        systems_are_solved_exactly();
        rows_times_quantized_weights(precision);
        joint_products_of_a_row(precision);
        many_rows_on_the_cpu(precision);
        // The CPU multiplies floats exactly, but for a matrix unit.
        let on_cpu = sum_of_64(beyond_bf16, Device::cpu());
        let rounded = precision == Precision::Medium && on_cpu == [bf16; 256];
        assert!(rounded || on_cpu == [64.0 * beyond_bf16; 256], "{precision:?}: {on_cpu:?}");
        let Some(device) = device else { continue };
        let calls = |name: &str| source(device).contains(&format!("{{ {name}c, a, b); }}"));
        for name in ["mma_tf32(", "mma_bf16("] {
            assert_eq!(calls(name), call == Some(name), "{precision:?}: {name}");
        }
        assert_eq!(sum_of_64(beyond_tf32, device), [tf32; 256], "{precision:?}");
        assert_eq!(sum_of_64(beyond_bf16, device), [bf16; 256], "{precision:?}");
        for (number, product) in PRODUCTS.iter().enumerate() {
            let values = |device| product(device).to_vec::<f32>().expect("a product");
            assert_eq!(values(device), values(Device::cpu()), "{precision:?}, product {number}");
        }
    }
    set_float32_matmul_precision(Precision::Highest);
    assert_eq!(text(), exact);
}
