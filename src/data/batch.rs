//! Tensors that travel together, and samples that become them.

use crate::base::{Device, Element};
use crate::ir::Op;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// Tensors that travel together: a tensor, or a tuple, array, vector or
/// option of such.
pub trait Batch: Sized {
    /// The same with every tensor replaced.
    #[must_use]
    fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// The same on a device; see [`Tensor::to`].
    #[must_use]
    #[track_caller]
    fn to(&self, device: Device) -> Self {
        let site = CallSite::here("to");
        self.map(&mut |x| if x.device() == device { x.clone() } else { site.apply(Op::Copy(device), &[x]) })
    }
}

impl Batch for Tensor {
    fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        change(self)
    }
}
impl<B: Batch> Batch for Vec<B> {
    fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<B> {
        self.iter().map(|part| part.map(change)).collect()
    }
}
impl<B: Batch, const N: usize> Batch for [B; N] {
    fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> [B; N] {
        std::array::from_fn(|i| self[i].map(change))
    }
}
impl<B: Batch> Batch for Option<B> {
    fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<B> {
        self.as_ref().map(|part| part.map(change))
    }
}

/// One sample: a tensor, a number, or a tuple of such.
pub trait Sample: Sized {
    /// What several are together.
    type Batch: Batch + Send;
    /// Samples, at least one, along a new first axis; errors, such as
    /// tensors of different shapes, make invalid tensors.
    fn stack(samples: Vec<Self>) -> Self::Batch;
}

impl Sample for Tensor {
    type Batch = Tensor;
    fn stack(samples: Vec<Tensor>) -> Tensor {
        Tensor::stack(&samples, 0)
    }
}
impl<T: Element> Sample for T {
    type Batch = Tensor;
    fn stack(samples: Vec<T>) -> Tensor {
        let count = samples.len();
        Tensor::from_vec(samples, [count], ())
    }
}

macro_rules! tuples {
    ($(($($part:ident $field:ident),+))*) => {$(
        impl<$($part: Batch),+> Batch for ($($part,)+) {
            fn map(&self, change: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                let ($($field,)+) = self;
                ($($field.map(change),)+)
            }
        }
        impl<$($part: Sample),+> Sample for ($($part,)+) {
            type Batch = ($($part::Batch,)+);
            fn stack(samples: Vec<Self>) -> Self::Batch {
                $(let mut $field = Vec::with_capacity(samples.len());)+
                for sample in samples {
                    let parts = sample;
                    tuples!(@push parts $($field)+);
                }
                ($($part::stack($field),)+)
            }
        }
    )*};
    (@push $parts:ident $a:ident) => { $a.push($parts.0); };
    (@push $parts:ident $a:ident $b:ident) => { $a.push($parts.0); $b.push($parts.1); };
    (@push $parts:ident $a:ident $b:ident $c:ident) => {
        $a.push($parts.0); $b.push($parts.1); $c.push($parts.2);
    };
    (@push $parts:ident $a:ident $b:ident $c:ident $d:ident) => {
        $a.push($parts.0); $b.push($parts.1); $c.push($parts.2); $d.push($parts.3);
    };
}

tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
}
