//! Pieces of work by name: what each computes on inputs of which shapes, and how it is timed.

use kiln::Result;
use kiln::prelude::*;

use super::report::{self, Timing};
use super::spec::{Input, input};

/// A piece of work: its name, its inputs by shape, the type they have, and
/// what is computed.
pub struct Item(pub &'static str, pub &'static [&'static [usize]], pub DType, pub fn(&[Tensor]) -> Tensor);

/// The gradient of the mean square of `call`'s result by all inputs, in one row.
pub fn gradient(x: &[Tensor], call: impl Fn(&[Tensor]) -> Tensor) -> Tensor {
    let x: Vec<Tensor> = x.iter().map(|x| x.detach().with_requires_grad()).collect();
    let loss = call(&x).square().mean(..);
    let gradients = kiln::grad(&loss, &x.iter().collect::<Vec<_>>());
    let rows: Vec<Tensor> = gradients.iter().map(|g| g.reshape([g.numel()])).collect();
    Tensor::cat(&rows.iter().collect::<Vec<_>>(), 0)
}

/// The gradient of `call`'s result, one number, by the first input.
pub fn gradient_of_the_first(x: &[Tensor], call: impl Fn(&[Tensor]) -> Tensor) -> Tensor {
    let mut x: Vec<Tensor> = x.to_vec();
    x[0] = x[0].detach().with_requires_grad();
    kiln::grad(&call(&x), &[&x[0]])[0].clone()
}

/// The n-th input of an item.
fn leaf(shape: &'static [usize], number: usize, dtype: DType, device: Device) -> Tensor {
    let values = Input::values(&input(shape, number as u32 + 1, 1.0, 0.0));
    let tensor = Tensor::from_vec(values, shape, device).to_dtype(dtype);
    tensor.realize().cloned().unwrap_or(tensor)
}

impl Item {
    /// On a device before anything is timed.
    fn inputs(&self, device: Device) -> Vec<Tensor> {
        let Item(_, shapes, dtype, _) = self;
        shapes.iter().enumerate().map(|(number, shape)| leaf(shape, number, *dtype, device)).collect()
    }

    /// Milliseconds that the item's plan takes at least.
    pub fn predicted_ms(&self, device: Device) -> Result<f64> {
        let result = (self.3)(&self.inputs(device));
        Ok(result.plan()?.roofline(device)?.seconds() * 1e3)
    }
}

/// Times an item, and prints its line.
pub fn run(device: Device, item: &Item) -> Timing {
    let Item(name, .., call) = item;
    let inputs = item.inputs(device);
    let mut sums = (f64::NAN, f64::NAN);
    let timing = report::time(
        || {
            let result = call(&inputs);
            if let Err(error) = result.realize().and_then(|_| device.synchronize()) {
                eprintln!("{name}: {error}");
            }
            result
        },
        |result| sums = result.to_dtype(DType::F32).to_vec().map_or(sums, |values| report::sums(&values)),
    );
    report::line(&device.to_string(), name, &timing, sums);
    timing
}
