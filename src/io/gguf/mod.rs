//! GGUF files (feature `gguf`): the models of llama.cpp, whose weights are mostly blocks of few bits.
//!
//! A [`Gguf`] has the metadata, with the types that the file gives them, and the tensors. Tensors of plain
//! numbers are mapped. Those in blocks are [`RawTensor`](crate::RawTensor)s that keep their bytes and whose
//! type is the name of the [`BlockFormat`]; [`RawTensor::to_tensor`](crate::RawTensor::to_tensor),
//! [`StateDict::convert`](crate::StateDict::convert) and
//! [`LoadOpts::convert`](crate::LoadOpts::convert) make `F32` of them.
//!
//! ```
//! use kiln::io::gguf::{BlockFormat, Gguf};
//! use kiln::prelude::*;
//! # let path = std::env::temp_dir().join(format!("kiln-gguf-{}", std::process::id()));
//! let mut file = Gguf::new();
//! file.set("general.architecture", "llama".into());
//! file.insert_packed("output.weight", &Tensor::ones([2, 32], ()), BlockFormat::Q8_0)?;
//! file.save(&path)?;
//!
//! let opened = Gguf::open(&path)?;
//! assert_eq!(opened.get("general.architecture").and_then(|value| value.as_text()), Some("llama"));
//! let weight = opened.state().raw("output.weight").unwrap();
//! assert_eq!((weight.dtype(), weight.bytes().len()), ("Q8_0", 2 * 34));
//! assert!((weight.to_tensor().to_vec::<f32>()?[0] - 1.0).abs() < 1e-4);
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<(), kiln::Error>(())
//! ```

mod block;
mod file;
mod header;
mod narrow_block;
mod repack;
mod split;
mod super_block;
mod value;

pub use block::BlockFormat;
pub use file::Gguf;
pub use split::split_names;
pub use value::GgufValue;
