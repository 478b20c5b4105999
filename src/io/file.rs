//! One file of the safetensors format: a header, and the tensors' bytes in its
//! order.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use crate::base::{DType, Device, Error, Result, Span, StateProblem};
use crate::io::door::{self, failed, problem, wrong_kind};
use crate::io::format;
use crate::io::header::{Header, TensorInfo};
use crate::io::item::StateItem;
use crate::io::magic;
use crate::io::mapped::Mapped;
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;

/// The parts of a file that holds these tensors.
///
/// # Errors
/// What computing the tensors says, and a header that is too long.
pub fn parts<'a>(
    path: &Path,
    items: &[StateItem<'a>],
    metadata: &BTreeMap<String, String>,
    span: Span,
) -> Result<Vec<Cow<'a, [u8]>>> {
    let mut items = items.to_vec();
    items.sort_by_key(|item| (Reverse(format::position(item.dtype())), item.name));
    let mut header = Header { metadata: metadata.clone(), tensors: Vec::new() };
    for item in &items {
        let (start, dims) = (header.data_len(), item.shape().to_vec());
        let (name, dtype) = (item.name.into(), item.dtype().into());
        header.tensors.push(TensorInfo { name, dtype, dims, start, end: start + item.bytes() });
    }
    let header = header.to_bytes().map_err(|error| failed(path, error, span))?;
    let values = items.iter().map(|item| item.read("save", span));
    std::iter::once(Ok(Cow::Owned(header))).chain(values).collect()
}

/// What a file holds. Tensors whose data are not there, since the file was cut
/// short, are on the meta device, or raw and without bytes.
pub struct FileContent {
    pub state: StateDict,
    pub problems: Vec<StateProblem>,
}

/// Reads a file.
///
/// # Errors
/// What makes the names in it unknown.
pub fn read(path: &Path, span: Span) -> Result<FileContent, Box<StateProblem>> {
    let unknown = |error: String| Box::new(problem(path, error));
    let map = door::open(path)?;
    let (header, data) = Header::read(map.bytes()).map_err(|error| {
        wrong_kind(path, magic::SAFETENSORS, map.bytes()).map_or_else(|| unknown(error), Box::new)
    })?;
    let mut content = FileContent { state: StateDict::new(), problems: Vec::new() };
    let (described, there) = (header.data_len(), map.bytes().len() - data);
    if described != there {
        let message = format!("the header describes {described} bytes of data, and {there} are there");
        content.problems.push(problem(path, message));
    }
    for info in &header.tensors {
        if let Err(message) = add(&mut content.state, &map, data, info, span) {
            content.problems.push(problem(path, message));
        }
    }
    *content.state.metadata_mut() = header.metadata;
    Ok(content)
}

/// Adds a tensor of a file, whose data begin at byte `data`.
///
/// # Errors
/// What is wrong with it.
fn add(
    state: &mut StateDict,
    map: &Mapped,
    data: usize,
    info: &TensorInfo,
    span: Span,
) -> Result<(), String> {
    let TensorInfo { name, dtype, dims, start, end } = info;
    let place = data.checked_add(*start).zip(data.checked_add(*end));
    let place = place.filter(|&(_, end)| end <= map.bytes().len());
    let text = |error: Error| format!("{name}: {error}");
    let Some(dtype) = format::dtype_of(dtype) else {
        let (start, end) = place.unwrap_or_default();
        return state.insert_raw(name, &map.raw(start, end, dtype, dims)).map_err(text);
    };
    let Some((start, end)) = place else {
        return state.insert(name, &Tensor::zeros(&dims[..], (Device::meta(), dtype))).map_err(text);
    };
    let tensor = map.tensor(start, dtype, dims, span).map_err(text)?;
    state.insert(name, &tensor).map_err(text)?;
    if dtype == DType::Bool && map.bytes()[start..end].iter().any(|&byte| byte > 1) {
        return Err(format!("{name} is of truth values, and some are neither 0 nor 1"));
    }
    Ok(())
}
