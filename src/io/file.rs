//! One file of the safetensors format: the length of a header, the header as
//! JSON, the tensors' bytes in the order of the header.

use std::path::Path;

use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, serialize};

use crate::base::file::{Durability, replace};
use crate::base::{DType, Device, Error, Result, Span, StateProblem};
use crate::io::mapped::Mapped;
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;

/// Bytes of the header's length.
const LENGTH: usize = 8;

/// An error of a file.
pub fn failed(path: &Path, message: impl ToString) -> Error {
    Error::File { path: path.display().to_string(), message: message.to_string() }
}

/// Writes a file of these tensors' bytes.
///
/// # Errors
/// What computing the tensors or writing the file says; an older file is then
/// as it was.
pub fn write(path: &Path, tensors: &[(&str, &Tensor)], span: Span) -> Result<()> {
    let values = tensors.iter().map(|(_, t)| t.read("save", span)).collect::<Result<Vec<_>>>()?;
    let views = tensors.iter().zip(&values).map(|((name, tensor), bytes)| {
        let view = TensorView::new(format_of(tensor.dtype()), tensor.shape().to_vec(), bytes);
        view.map(|view| (*name, view)).map_err(|error| failed(path, error))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let content = serialize(views, None).map_err(|error| failed(path, error))?;
    replace(path, &[&content], Durability::Synced).map_err(|error| failed(path, error))
}

/// What a file holds. Tensors whose data are not there, since the file was cut
/// short, are on the meta device.
pub struct Content {
    pub state: StateDict,
    pub problems: Vec<StateProblem>,
}

/// Reads a file.
///
/// # Errors
/// What makes the names in it unknown.
pub fn read(path: &Path, span: Span) -> Result<Content, String> {
    if cfg!(target_endian = "big") {
        return Err("the format is little-endian, and this machine is not".into());
    }
    let map = Mapped::open(path).map_err(|error| error.to_string())?;
    let (data, header) = header(map.bytes())?;
    let mut content = Content { state: StateDict::new(), problems: Vec::new() };
    let mut problem = |message: String| {
        content.problems.push(StateProblem::File { path: path.display().to_string(), message });
    };
    let (described, there) = (header.data_len(), map.bytes().len() - data);
    if described != there {
        problem(format!("the header describes {described} bytes of data, and {there} are there"));
    }
    for (name, info) in header.tensors() {
        let Some(dtype) = type_of(info.dtype) else {
            problem(format!("{name} is of type {:?}, which is not supported", info.dtype));
            continue;
        };
        let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
        let Some(bytes) = map.bytes().get(start..end) else {
            let lost = Tensor::zeros(info.shape.clone(), (Device::meta(), dtype));
            content.state.insert(name, &lost).map_err(|error| error.to_string())?;
            continue;
        };
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            problem(format!("{name} is of truth values, and some are neither 0 nor 1"));
        }
        let tensor = map.tensor(start, dtype, &info.shape, span).map_err(|error| error.to_string())?;
        content.state.insert(name, &tensor).map_err(|error| error.to_string())?;
    }
    Ok(content)
}

/// Where the data begin, and what the header says of them.
fn header(bytes: &[u8]) -> Result<(usize, Metadata), String> {
    let short = || format!("{} bytes are too few to hold the header", bytes.len());
    let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
    let json = rest
        .get(..length)
        .ok_or_else(|| format!("the header is said to be of {length} bytes, and {} are there", rest.len()))?;
    let header = serde_json::from_slice(json).map_err(|error| format!("the header is damaged: {error}"))?;
    Ok((LENGTH + length, header))
}

/// The format's name of a type.
fn format_of(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

/// The type of a name; `None` for one that there is not here.
fn type_of(name: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| format_of(dtype) == name)
}
