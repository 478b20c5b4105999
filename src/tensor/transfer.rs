//! Between devices, and into memory.

use crate::base::{Device, Span};
use crate::ir::Op;
use crate::tensor::Tensor;

impl Tensor {
    /// The same elements on another device: a transfer, the only way data
    /// crosses devices. The same tensor where it is there already.
    #[track_caller]
    pub fn to(&self, device: Device) -> Tensor {
        if self.ty().is_some_and(|ty| ty.device == device) {
            return self.clone();
        }
        Tensor::apply("to", Span::caller(), Op::Copy(device), &[self])
    }

    /// The same elements in host memory: [`Tensor::to`] the CPU.
    #[track_caller]
    pub fn cpu(&self) -> Tensor {
        self.to(Device::cpu())
    }

    /// The same elements on a CUDA device: [`Tensor::to`] that device.
    #[track_caller]
    pub fn cuda(&self, index: u16) -> Tensor {
        self.to(Device::cuda(index))
    }

    /// The same elements, put into row-major memory of their own where the
    /// plan would otherwise compute them again or leave them as a view.
    #[track_caller]
    pub fn materialize(&self) -> Tensor {
        Tensor::apply("materialize", Span::caller(), Op::Copy(self.device()), &[self])
    }
}

#[cfg(test)]
mod tests {
    use crate::base::Device;
    use crate::tensor::testing::pattern;

    #[test]
    fn transfers_happen_only_between_devices() {
        let x = pattern(&[2, 3], 0);
        assert!(x.to(Device::cpu()).is_realized());
        let away = x.to(Device::null());
        assert_eq!((away.device(), away.plan().unwrap().transfers.len()), (Device::null(), 1));
    }

    #[test]
    fn materializing_keeps_the_elements() {
        let x = pattern(&[2, 3], 0).t();
        assert_eq!(x.materialize().to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    }
}
