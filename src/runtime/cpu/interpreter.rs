//! The CPU device without the feature `cpu`: kernels are interpreted point by point.
//!
//! A page that computes on its GPU needs the host for little, and is half as large without what makes
//! the host fast.

use std::sync::Arc;

use crate::base::Result;
use crate::kernel::Kernel;
use crate::runtime::cpu::reference;
use crate::runtime::{Bindings, Capabilities, InPlace, Program};

/// Whether kernels are interpreted.
pub const INTERPRETS: bool = !cfg!(feature = "cpu");

/// What the device can do then.
pub fn limited(capabilities: Capabilities) -> Capabilities {
    Capabilities { attention: None, in_place: InPlace::Never, joint_rows: false, ..capabilities }
}

/// The program of a kernel.
pub fn program(kernel: &Kernel) -> Arc<dyn Program> {
    Arc::new(InterpretedProgram(kernel.clone()))
}

#[derive(Debug)]
struct InterpretedProgram(Kernel);

impl Program for InterpretedProgram {
    fn source(&self) -> String {
        crate::kernel::print::text(&self.0)
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        reference::run(&self.0, bindings);
        Ok(())
    }
    fn compiled(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::nn::{BatchNorm, Conv2d, Layer, Linear, ModuleExt, Sequential};
    use crate::optim::{Adam, AdamOpts, Optimizer};
    use crate::plan::context::{Context, with_context};
    use crate::runtime::cpu::CpuBackend;
    use crate::tensor::Tensor;
    use crate::{DType, Device};

    /// The losses of some steps of a small network, and what else a program asks of a host.
    fn computed() -> Vec<f32> {
        crate::manual_seed(5);
        let net = Sequential::new()
            .push(Conv2d::new(1, 4, [3, 3], Default::default(), Device::cpu()))
            .push(BatchNorm::new(4, Device::cpu()))
            .then(|x: &Tensor| x.gelu().flatten(1, -1))
            .push(Linear::new(4 * 4 * 4, 5, Device::cpu()));
        let mut optimizer = Adam::new(net.parameters(), AdamOpts::default().lr(0.02));
        let x = (Tensor::arange(0, 3 * 36, 1, ()).to_dtype(DType::F32) * 0.7).sin().reshape([3, 1, 6, 6]);
        let labels = Tensor::from([1i64, 4, 0]);
        let step = |_| {
            let loss = net.forward(&x).cross_entropy(&labels, Default::default());
            loss.backward().expect("gradients");
            optimizer.step().expect("a step");
            loss.item::<f32>().expect("a loss")
        };
        let mut found: Vec<f32> = (0..4).map(step).collect();
        let (sorted, order) = x.flatten(0, -1).sort(0, true);
        let rows = x.reshape([3, 6, 6]);
        let attended = rows.scaled_dot_product_attention(&rows, &rows, Default::default());
        for result in [sorted, order.to_dtype(DType::F32), attended, x.cumsum(3).logsumexp(3)] {
            found.extend(result.flatten(0, -1).to_vec::<f32>().expect("values"));
        }
        found
    }

    #[test]
    fn interpreted_kernels_give_what_compiled_ones_do() {
        let context = Context::new();
        context.install(Arc::new(CpuBackend::interpreting()));
        let (there, here) = (with_context(&context, computed), computed());
        let near = |(x, y): &(&f32, &f32)| (*x - *y).abs() <= 1e-4 * y.abs().max(1.0);
        let off = there.iter().zip(&here).find(|pair| !near(pair));
        assert_eq!((off, there.len()), (None, here.len()));
    }
}
