//! What a state holds under one name.

#[cfg(any(feature = "safetensors", feature = "npy", feature = "gguf"))]
use std::borrow::Cow;

use crate::base::{DType, Shape};
#[cfg(any(feature = "safetensors", feature = "npy", feature = "gguf"))]
use crate::base::{Result, Span};
use crate::io::format;
use crate::io::raw::RawTensor;
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;

/// A tensor of a state, with its name.
#[derive(Clone, Copy, Debug)]
pub struct StateItem<'a> {
    pub name: &'a str,
    pub value: TensorData<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum TensorData<'a> {
    Tensor(&'a Tensor),
    Raw(&'a RawTensor),
}

impl<'a> StateItem<'a> {
    /// All of a state, in the order of the names.
    pub fn all(state: &StateDict) -> Vec<StateItem<'_>> {
        let tensors =
            state.iter().map(|(name, tensor)| StateItem { name, value: TensorData::Tensor(tensor) });
        let raw = state.raw_tensors().map(|(name, raw)| StateItem { name, value: TensorData::Raw(raw) });
        let mut all: Vec<StateItem> = tensors.chain(raw).collect();
        all.sort_by_key(|item| item.name);
        all
    }

    /// The name of its type in the safetensors format.
    pub fn dtype(&self) -> &'a str {
        match self.value {
            TensorData::Tensor(tensor) => format::name_of(tensor.dtype()),
            TensorData::Raw(raw) => raw.dtype(),
        }
    }
    /// The type of its elements as a tensor, if it can be one.
    pub fn computed(&self) -> Option<DType> {
        match self.value {
            TensorData::Tensor(tensor) => Some(tensor.dtype()),
            TensorData::Raw(raw) => raw.converted(),
        }
    }
    pub fn shape(&self) -> Shape {
        match self.value {
            TensorData::Tensor(tensor) => tensor.shape(),
            TensorData::Raw(raw) => raw.shape().clone(),
        }
    }
    /// How many bytes it takes.
    #[cfg(feature = "safetensors")]
    pub fn bytes(&self) -> usize {
        match self.value {
            TensorData::Tensor(tensor) => tensor.numel() * tensor.dtype().size(),
            TensorData::Raw(raw) => raw.bytes().len(),
        }
    }
    /// Its bytes, of a tensor in row-major order.
    ///
    /// # Errors
    /// What computing the tensor says.
    #[cfg(any(feature = "safetensors", feature = "npy", feature = "gguf"))]
    pub fn read(&self, call: &'static str, span: Span) -> Result<Cow<'a, [u8]>> {
        match self.value {
            TensorData::Tensor(tensor) => tensor.read(call, span).map(Cow::Owned),
            TensorData::Raw(raw) => Ok(Cow::Borrowed(raw.bytes())),
        }
    }
}
