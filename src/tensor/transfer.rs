//! Between devices, and into memory.

use crate::base::{Device, OpError, Result, Span};
use crate::ir::{Node, Op};
use crate::plan;
use crate::tensor::Tensor;

impl Tensor {
    /// The same elements on another device: a transfer, the only way data crosses devices.
    ///
    /// The same tensor where it is there already. Realizing a transfer to a device waits for
    /// nothing that the device does; from pinned memory ([`Tensor::pin_memory`]) it does not wait
    /// for the copy either. One to the host waits, since its elements are then there.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], Device::cpu()).to(Device::null());
    /// assert_eq!(x.device(), Device::null());
    /// ```
    #[track_caller]
    pub fn to(&self, device: Device) -> Tensor {
        if self.ty().is_some_and(|ty| ty.device == device) {
            return self.clone();
        }
        Tensor::apply("to", Span::caller(), Op::Copy(device), &[self])
    }

    /// The same elements in host memory: [`Tensor::to`] the CPU.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::ones([2], ()).cpu().to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cpu(&self) -> Tensor {
        self.to(Device::cpu())
    }

    /// The same elements on a CUDA device: [`Tensor::to`] that device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()).cuda(0);
    /// assert_eq!(x.device().kind, DeviceKind::Cuda);
    /// ```
    #[track_caller]
    pub fn cuda(&self, index: u16) -> Tensor {
        self.to(Device::cuda(index))
    }

    /// The same elements in pinned host memory, from which a device copies by itself.
    ///
    /// A transfer from there does not wait for the copy, which runs beside what the device
    /// computes. It computes at once.
    ///
    /// Pinned is what a CUDA device of this process needs, by the driver of the current one. Where
    /// there is none, it is plain host memory: other devices copy through memory of their own, and
    /// the CPU has nothing to copy. Pinned memory cannot be swapped out; take it for what is
    /// transferred again and again, such as batches.
    ///
    /// # Errors
    /// A tensor that is not in host memory; out of memory; what
    /// [`Tensor::realize`] says.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], Device::cpu()).pin_memory()?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pin_memory(&self) -> Result<Tensor> {
        let span = Span::caller();
        let ty = self.node()?.ty().clone();
        if ty.device != Device::cpu() {
            let found = format!("one on {}", ty.device);
            return Err(OpError::new("pin_memory", span, "a tensor in host memory", found).into());
        }
        if self.is_pinned() {
            return Ok(self.clone());
        }
        plan::realize(std::slice::from_ref(self.node()?), span)?;
        let value = self.node()?.value().unwrap_or_else(|| panic!("a realized node has no value"));
        let leaf = plan::transfer::pinned(&plan::context::current(), &ty, value, span)?;
        Ok(Tensor::from_node(Node::leaf(ty, leaf, span)))
    }

    /// Whether the elements are in memory that [`Tensor::pin_memory`] gave.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert!(!Tensor::ones([2], ()).is_pinned());
    /// ```
    pub fn is_pinned(&self) -> bool {
        let value = self.peek().and_then(|node| node.value());
        value.is_some_and(|leaf| leaf.buffer.is_pinned())
    }

    /// The same elements in row-major memory of their own.
    ///
    /// Where the plan would otherwise compute them again or leave them as a view.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 1], ()).expand([2, 3]).materialize();
    /// assert_eq!(x.to_vec::<f32>()?, [1.0; 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
