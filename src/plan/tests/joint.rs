//! Products of one row that are one launch, on any device.

use std::sync::Arc;

use crate::base::{DType, Device};
use crate::plan::context::{Context, with_context};
use crate::runtime::Backend;
use crate::tensor::Tensor;
use crate::tensor::quantized::{Quantization, QuantizedTensor};
use crate::tensor::read::realize;
use crate::tensor::testing::{pattern, values};

/// What the tests run on.
pub(crate) struct Joint {
    device: Device,
    context: Arc<Context>,
}

impl Joint {
    /// A device of a context's.
    pub fn on(device: Device) -> Joint {
        Joint { device, context: Context::new() }
    }

    /// Another in the place of a device.
    pub fn with(backend: Arc<dyn Backend>) -> Joint {
        let joint = Joint::on(backend.device());
        joint.context.install(backend);
        joint
    }

    /// All that is said of joint launches; `random` graphs.
    pub fn check(&self, dtypes: &[DType], random: u64) {
        with_context(&self.context, || {
            dtypes.iter().for_each(|&dtype| self.products_of_one_row_are_one_launch_and_the_same_bits(dtype));
            self.products_that_are_cut_along_their_depth_have_sums_of_their_own();
            self.a_product_may_read_another_at_its_own_elements();
            self.arguments_stay_those_of_their_product();
            self.packed_weights_are_one_launch();
            self.a_product_that_needs_more_of_another_waits();
            self.random_rows_are_right_however_they_are_launched(random);
        });
    }

    /// Launches that compute some tensors.
    fn launches(&self, tensors: &[&Tensor]) -> u64 {
        let before = self.context.counters().kernels_launched;
        realize(tensors).unwrap();
        self.context.counters().kernels_launched - before
    }

    fn ready(&self, shape: &[usize], seed: usize, dtype: DType) -> Tensor {
        pattern(shape, seed).to(self.device).to_dtype(dtype).realize().unwrap().clone()
    }

    fn products_of_one_row_are_one_launch_and_the_same_bits(&self, dtype: DType) {
        for transposed in [true, false] {
            let x = self.ready(&[1, 160], 1, dtype);
            let weight = |n: usize| match transposed {
                true => self.ready(&[n, 160], n, dtype).t(),
                false => self.ready(&[160, n], n, dtype),
            };
            let weights = [300, 33, 1024, 5].map(weight);
            let all: Vec<Tensor> = weights.iter().map(|w| x.matmul(w) * 0.5).collect();
            let what = format!("{dtype}, {transposed}");
            assert_eq!(self.launches(&all.iter().collect::<Vec<_>>()), 1, "{what}");
            for (together, w) in all.iter().zip(&weights) {
                let alone = x.matmul(w) * 0.5;
                assert_eq!(self.launches(&[&alone]), 1, "{what}");
                assert_eq!(numbers(together), numbers(&alone), "{what}");
            }
        }
    }

    fn products_that_are_cut_along_their_depth_have_sums_of_their_own(&self) {
        let x = self.ready(&[1, 1 << 13], 1, DType::F32);
        let weights = [64, 32].map(|n| self.ready(&[1 << 13, n], n, DType::F32));
        let all = weights.each_ref().map(|w| x.matmul(w));
        assert_eq!(self.launches(&all.each_ref()), 1);
        for (together, w) in all.iter().zip(&weights) {
            let alone = x.matmul(w);
            assert_eq!(self.launches(&[&alone]), 1);
            assert_near(together, &[1, w.shape()[1]], &numbers(&alone));
        }
    }

    fn a_product_may_read_another_at_its_own_elements(&self) {
        for dtype in [DType::F32, DType::BF16] {
            let x = self.ready(&[1, 1, 96], 1, DType::F32);
            let [gate, up] = [2, 3].map(|seed| self.ready(&[520, 96], seed, dtype).to_dtype(DType::F32));
            let (g, u) = (x.linear(&gate, None), x.linear(&up, None));
            let y = g.silu() * &u;
            assert_eq!(self.launches(&[&y]), 1, "{dtype}");
            let (g, u) = (numbers(&g), numbers(&u));
            let expected: Vec<f64> = g.iter().zip(&u).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            assert_near(&y, &[1, 1, 520], &expected);
        }
    }

    fn arguments_stay_those_of_their_product(&self) {
        let x = self.ready(&[1, 96], 1, DType::F32);
        let weights = [200, 64, 72].map(|n| self.ready(&[96, n], n, DType::F32));
        for round in 0..3 {
            let scale = |number: usize| 1.5 + number as f64 + 0.25 * f64::from(round);
            let scaled = |(number, w): (usize, &Tensor)| x.matmul(w) * scale(number) + scale(number + 7);
            let all: Vec<Tensor> = weights.iter().enumerate().map(scaled).collect();
            assert_eq!(self.launches(&all.iter().collect::<Vec<_>>()), 1, "{round}");
            for (number, (y, w)) in all.iter().zip(&weights).enumerate() {
                let plain = numbers(&x.matmul(w));
                let expected: Vec<f64> =
                    plain.iter().map(|x| x * scale(number) + scale(number + 7)).collect();
                assert_near(y, &[1, w.shape()[1]], &expected);
            }
        }
    }

    fn packed_weights_are_one_launch(&self) {
        let x = self.ready(&[1, 128], 1, DType::F32);
        let packed = |n: usize| {
            let packed = QuantizedTensor::quantize(&pattern(&[n, 128], n), Quantization::Q4_0).unwrap();
            packed.to(self.device)
        };
        let weights = [96, 32, 33].map(packed);
        let products = || weights.iter().map(|w| x.linear(&w.dequantize(), None)).collect::<Vec<Tensor>>();
        // The first time sends the weights to the device.
        self.launches(&products().iter().collect::<Vec<_>>());
        let all = products();
        assert_eq!(self.launches(&all.iter().collect::<Vec<_>>()), 1);
        for (y, w) in all.iter().zip(&weights) {
            assert_eq!(numbers(y), numbers(&x.linear(&w.dequantize(), None)));
        }
    }

    fn a_product_that_needs_more_of_another_waits(&self) {
        let x = self.ready(&[1, 64], 1, DType::F32);
        let [a, b] = [2, 3].map(|seed| self.ready(&[64, 64], seed, DType::F32));
        let chain = x.matmul(&a).relu().matmul(&b);
        assert_eq!(self.launches(&[&chain]), 2);
        let whole = x.matmul(&a);
        let one = x.matmul(&b) * whole.narrow(1, 3, 1);
        assert_eq!(self.launches(&[&whole, &one]), 2);
        let flipped = x.matmul(&a).flip([1]) * x.matmul(&b);
        assert_eq!(self.launches(&[&flipped]), 2);
        let (a, b) = (numbers(&x.matmul(&a)), numbers(&x.matmul(&b)));
        let expected: Vec<f64> = a.iter().rev().zip(&b).map(|(a, b)| a * b).collect();
        assert_near(&flipped, &[1, 64], &expected);
    }

    fn random_rows_are_right_however_they_are_launched(&self, graphs: u64) {
        let weights: Vec<(Tensor, Vec<f64>)> = (0..4)
            .map(|seed| {
                let weight = (self.ready(&[72, 72], seed, DType::F32) * 0.1).realize().unwrap().clone();
                let numbers = numbers(&weight);
                (weight, numbers)
            })
            .collect();
        let (mut planned, mut launched) = (0, 0);
        for seed in 0..graphs {
            let rows = self.random_rows(seed, &weights);
            let outputs: Vec<&Row> = rows.iter().rev().step_by(1 + seed as usize % 3).take(4).collect();
            let tensors: Vec<&Tensor> = outputs.iter().map(|row| &row.tensor).collect();
            planned += crate::plan(&tensors).unwrap().kernels.len() as u64;
            launched += self.launches(&tensors);
            for row in outputs {
                assert_near(&row.tensor, &[1, 72], &row.exact);
            }
        }
        assert!(launched < planned, "{launched} launches of {planned} kernels");
    }

    /// Rows made of earlier ones by products and elementwise.
    fn random_rows(&self, seed: u64, weights: &[(Tensor, Vec<f64>)]) -> Vec<Row> {
        const WIDTH: usize = 72;
        let mut state = seed;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % most
        };
        let first = self.ready(&[1, WIDTH], seed as usize, DType::F32);
        let exact = numbers(&first);
        let mut rows = vec![Row { tensor: first, exact }];
        for _ in 0..10 {
            let (a, b) = (&rows[below(rows.len())], &rows[below(rows.len())]);
            let zip = |f: fn(f64, f64) -> f64| a.exact.iter().zip(&b.exact).map(|(&a, &b)| f(a, b)).collect();
            let (weight, numbers) = &weights[below(weights.len())];
            let product = |row: &[f64]| -> Vec<f64> {
                (0..WIDTH).map(|n| (0..WIDTH).map(|k| row[k] * numbers[n * WIDTH + k]).sum()).collect()
            };
            let (tensor, exact) = match below(8) {
                0 => (&a.tensor + &b.tensor, zip(|a, b| a + b)),
                1 => (a.tensor.tanh() * &b.tensor, zip(|a, b| a.tanh() * b)),
                2 => (a.tensor.flip([1]).tanh(), a.exact.iter().rev().map(|a| a.tanh()).collect()),
                3 => (a.tensor.linear(weight, None).tanh() + &b.tensor, {
                    product(&a.exact).iter().zip(&b.exact).map(|(a, b)| a.tanh() + b).collect()
                }),
                _ => (a.tensor.linear(weight, None), product(&a.exact)),
            };
            rows.push(Row { tensor, exact });
        }
        rows
    }
}

/// What the device has computed.
fn numbers(x: &Tensor) -> Vec<f64> {
    values(x.to(Device::cpu()).realize().unwrap())
}

fn assert_near(x: &Tensor, shape: &[usize], expected: &[f64]) {
    assert_eq!(x.shape()[..], *shape);
    let found = numbers(x);
    let wrong = found.iter().zip(expected).position(|(a, b)| (a - b).abs() > 1e-4 * (1.0 + b.abs()));
    assert_eq!(wrong.map(|at| (at, found[at], expected[at])), None);
}

/// A row that is computed in both ways.
struct Row {
    tensor: Tensor,
    exact: Vec<f64>,
}

#[test]
fn products_of_one_row_are_launched_together() {
    let random = if cfg!(miri) { 3 } else { 150 };
    Joint::on(Device::cpu()).check(&[DType::F32, DType::F64, DType::BF16, DType::F16], random);
}
