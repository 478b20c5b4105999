//! One file of the safetensors format: a header, and the tensors' bytes in its
//! order.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::base::{DType, Device, Error, Result, Shape, Span, StateProblem};
use crate::io::door::{self, failed, problem, wrong_kind};
use crate::io::format;
use crate::io::header::{Header, TensorInfo};
use crate::io::item::StateItem;
use crate::io::magic;
use crate::io::mapped::Mapped;
use crate::io::range_reader::RangeReader;
use crate::io::raw::RawTensor;
use crate::io::remote::Remote;
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;

/// Bytes that are read of a file before its header's length is known.
const FIRST: usize = 16 << 10;

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

impl FileContent {
    /// Of a file with a header, before its tensors are added: `there` bytes follow the header.
    fn of(path: &Path, header: &Header, there: usize) -> FileContent {
        let mut content = FileContent { state: StateDict::new(), problems: Vec::new() };
        let described = header.data_len();
        if described != there {
            let message = format!("the header describes {described} bytes of data, and {there} are there");
            content.problems.push(problem(path, message));
        }
        content.state.metadata_mut().clone_from(&header.metadata);
        content
    }
}

/// Reads a file.
///
/// # Errors
/// What makes the names in it unknown.
pub fn read(path: &Path, span: Span) -> Result<FileContent, Box<StateProblem>> {
    let map = door::open(path)?;
    let header = Header::read(map.bytes());
    let (header, data) = header.map_err(|error| unreadable(path, map.bytes(), error))?;
    let mut content = FileContent::of(path, &header, map.bytes().len() - data);
    for info in &header.tensors {
        let bytes = place(info, data, map.bytes().len()).map(|place| (&map, place));
        if let Err(message) = add(&mut content.state, bytes, info, span) {
            content.problems.push(problem(path, message));
        }
    }
    Ok(content)
}

/// Reads a file by ranges, each tensor into memory of its own.
///
/// # Errors
/// What makes the names in it unknown, and those of the reader.
pub async fn fetch<R: RangeReader>(
    file: &mut Remote<R>,
    span: Span,
) -> Result<FileContent, Box<StateProblem>> {
    let path = file.name().to_path_buf();
    let wrong = |error: String| Box::new(problem(&path, error));
    let mut head = Vec::new();
    file.extend(&mut head, FIRST).await.map_err(wrong)?;
    let data = Header::extent(&head, file.size()).map_err(|error| unreadable(&path, &head, error))?;
    file.extend(&mut head, data).await.map_err(wrong)?;
    let (header, data) = Header::read(&head).map_err(|error| unreadable(&path, &head, error))?;
    let mut content = FileContent::of(&path, &header, file.size() - data);
    for info in &header.tensors {
        let part = match place(info, data, file.size()) {
            Some(place) => Some(file.part(place).await.map_err(wrong)?),
            None => None,
        };
        let bytes = part.as_ref().map(|part| (part, 0..part.bytes().len()));
        if let Err(message) = add(&mut content.state, bytes, info, span) {
            content.problems.push(problem(&path, message));
        }
    }
    Ok(content)
}

/// A header that cannot be read, or the other kind of file that it is.
fn unreadable(path: &Path, start: &[u8], error: String) -> Box<StateProblem> {
    Box::new(wrong_kind(path, magic::SAFETENSORS, start).unwrap_or_else(|| problem(path, error)))
}

/// Where a tensor is in a file of `size` bytes, whose data begin at byte `data`, if it is there.
fn place(info: &TensorInfo, data: usize, size: usize) -> Option<Range<usize>> {
    let (start, end) = data.checked_add(info.start).zip(data.checked_add(info.end))?;
    (end <= size).then_some(start..end)
}

/// Adds a tensor of a file, whose bytes are at a place of those mapped, if they are there.
///
/// # Errors
/// What is wrong with it.
fn add(
    state: &mut StateDict,
    bytes: Option<(&Mapped, Range<usize>)>,
    info: &TensorInfo,
    span: Span,
) -> Result<(), String> {
    let TensorInfo { name, dtype, dims, .. } = info;
    let text = |error: Error| format!("{name}: {error}");
    let Some(dtype) = format::dtype_of(dtype) else {
        let raw = match bytes {
            Some((map, place)) => map.raw(place.start, place.end, dtype, dims),
            None => RawTensor::within(dtype, Shape::new(dims), Arc::new([]), 0..0),
        };
        return state.insert_raw(name, &raw).map_err(text);
    };
    let Some((map, place)) = bytes else {
        return state.insert(name, &Tensor::zeros(&dims[..], (Device::meta(), dtype))).map_err(text);
    };
    let tensor = map.tensor(place.start, dtype, dims, span).map_err(text)?;
    state.insert(name, &tensor).map_err(text)?;
    if dtype == DType::Bool && map.bytes()[place].iter().any(|&byte| byte > 1) {
        return Err(format!("{name} is of truth values, and some are neither 0 nor 1"));
    }
    Ok(())
}
