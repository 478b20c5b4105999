//! A GGUF file: its metadata and its tensors.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::file::{Durability, replace};
use crate::base::{DType, Result, Shape, Span, StateProblem};
use crate::io::door::{failed, problem, read_file, wrong, wrong_kind};
use crate::io::format::{self, LONGEST};
use crate::io::gguf::block::BlockFormat;
use crate::io::gguf::header::{Flaw, Header, TensorInfo};
use crate::io::gguf::split;
use crate::io::gguf::value::GgufValue;
use crate::io::item::StateItem;
use crate::io::magic;
use crate::io::mapped::Mapped;
use crate::io::range_reader::RangeReader;
use crate::io::raw::RawTensor;
use crate::io::remote::Remote;
use crate::io::state_dict::StateDict;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::{Quantization, QuantizedTensor};

/// The numbers and names of formats of plain numbers; those of blocks are [`BlockFormat`]s.
const PLAIN: [(u32, &str); 8] =
    [(0, "F32"), (1, "F16"), (24, "I8"), (25, "I16"), (26, "I32"), (27, "I64"), (28, "F64"), (30, "BF16")];

/// Bytes that are read of a file before more of its header is.
const FIRST: usize = 64 << 10;

/// A GGUF file: metadata by name, and tensors.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    metadata: Vec<(String, GgufValue)>,
    state: StateDict,
}

impl Gguf {
    /// Without anything.
    pub fn new() -> Gguf {
        Gguf::default()
    }

    /// Opens a file of version 2 or 3. Its tensors are mapped into memory. Those of formats that are not
    /// known are raw, of the type `GGML_` and the format's number. Of a model that is divided among several
    /// files, the first opens all ([`split_names`](crate::io::gguf::split_names)).
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with what is wrong with a file.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let (path, span) = (path.as_ref(), Span::caller());
        let open = |path: &Path| Gguf::open_alone(path, span);
        split::joined(open(path)?, path, span, open)
    }

    fn open_alone(path: &Path, span: Span) -> Result<Gguf> {
        read_file(path, magic::GGUF, span, |map| {
            let header = Header::read(map.bytes()).map_err(|flaw| flaw.to_string())?;
            let mut state = StateDict::new();
            for (info, place) in places(&header, map.bytes().len())? {
                add(&mut state, map, info, place, span)?;
            }
            Ok(Gguf::of(header, state))
        })
    }

    /// [`Gguf::open`] of a file that is read by ranges, such as one by address: a future that has read all of
    /// it, each tensor into memory of its own.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with the reader's name and what is wrong with the file; one of
    /// several that a model is divided among.
    ///
    /// # Examples
    /// ```
    /// use kiln::io::gguf::Gguf;
    /// let file = [&b"GGUF"[..], &3u32.to_le_bytes(), &[0; 16], &[0; 4]].concat(); // without anything
    /// let opened = pollster::block_on(Gguf::open_async(&file[..]))?;
    /// assert!(opened.state().is_empty());
    /// assert!(pollster::block_on(Gguf::open_async(&file[..20])).is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_async(reader: impl RangeReader) -> impl Future<Output = Result<Gguf>> {
        let (name, span) = (PathBuf::from(reader.name()), Span::caller());
        async move { fetch(reader, span).await.map_err(|problem| wrong(&name, vec![*problem], span)) }
    }

    fn of(header: Header, mut state: StateDict) -> Gguf {
        let text = header.metadata.iter().map(|(key, value)| (key.clone(), value.to_string()));
        state.metadata_mut().extend(text);
        Gguf { metadata: header.metadata, state }
    }

    /// Names and values of the metadata, in the order of the file.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &GgufValue)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value))
    }
    /// The value of a name.
    pub fn get(&self, key: &str) -> Option<&GgufValue> {
        self.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }
    /// Sets the value of a name.
    pub fn set(&mut self, key: &str, value: GgufValue) {
        self.metadata.retain(|(known, _)| known != key);
        self.metadata.push((key.into(), value));
    }

    /// Adds the tensors of another file.
    ///
    /// # Errors
    /// A name that is there.
    pub(super) fn absorb(&mut self, other: Gguf) -> Result<()> {
        other.state.iter().try_for_each(|(name, tensor)| self.state.insert(name, tensor))?;
        other.state.raw_tensors().try_for_each(|(name, tensor)| self.state.insert_raw(name, tensor))
    }

    /// Drops the metadata whose names begin so.
    pub(super) fn forget(&mut self, beginning: &str) {
        self.metadata.retain(|(key, _)| !key.starts_with(beginning));
        self.state.metadata_mut().retain(|key, _| !key.starts_with(beginning));
    }

    /// The tensors; those in blocks are raw. Its metadata are those of the file as text.
    pub fn state(&self) -> &StateDict {
        &self.state
    }
    /// The same, without the file's typed metadata.
    pub fn into_state(self) -> StateDict {
        self.state
    }

    /// Adds a tensor of plain numbers, in its own type.
    ///
    /// # Errors
    /// The error recorded in the tensor, or a name that is there.
    pub fn insert(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        self.state.insert(name, tensor)
    }

    /// Adds a tensor as blocks of a format that is computed with: `Q8_0`, `Q4_0` or `Q4_1`.
    ///
    /// # Errors
    /// Those of computing the tensor; rows that are no whole blocks; a format that is only read; a name
    /// that is there.
    #[track_caller]
    pub fn insert_packed(&mut self, name: &str, tensor: &Tensor, format: BlockFormat) -> Result<()> {
        let (site, shape) = (CallSite::here("insert_packed"), tensor.shape());
        let rows = shape.last().is_some_and(|row| row.is_multiple_of(format.block_len()));
        let Some(quantization) = Quantization::of(format.name()).filter(|_| rows) else {
            let expected = format!("Q8_0, Q4_0 or Q4_1, and rows of whole blocks of {}", format.block_len());
            return Err(site.error(expected, format!("{} of {}", format.name(), shape), &[]));
        };
        let _line = site.span.enter();
        self.insert_quantized(name, &QuantizedTensor::quantize(&site.cast(tensor, DType::F32), quantization)?)
    }

    /// Adds a quantized tensor as the blocks that it is.
    ///
    /// # Errors
    /// Those of reading it; a name that is there.
    ///
    /// # Examples
    /// ```
    /// use kiln::io::gguf::Gguf;
    /// use kiln::nn::{Linear, ModuleExt, QuantizeOpts};
    /// use kiln::{LoadOpts, Quantization};
    /// let layer = Linear::without_bias(32, 8, ());
    /// layer.quantize(Quantization::Q4_1, QuantizeOpts::default())?;
    /// let mut file = Gguf::new();
    /// file.insert_quantized("weight", &layer.weight.quantized().unwrap())?;
    ///
    /// let again = Linear::without_bias(32, 8, ());
    /// again.load_state_dict_with(file.state(), LoadOpts::default().quantized(true))?;
    /// assert_eq!(again.weight.get().to_vec::<f32>()?, layer.weight.get().to_vec::<f32>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn insert_quantized(&mut self, name: &str, packed: &QuantizedTensor) -> Result<()> {
        let blocks = packed.to_blocks()?;
        let range = 0..blocks.len();
        let raw =
            RawTensor::within(packed.quantization().name(), packed.shape().clone(), Arc::new(blocks), range);
        self.state.insert_raw(name, &raw)
    }

    /// Writes a file of version 3, as [`StateDict::save`](crate::StateDict::save) does.
    ///
    /// # Errors
    /// What computing the tensors says; types that the format does not have (`U8`, `U32`, `Bool`); lists
    /// of several types; those of the file system.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let parts = self.parts(path, span)?;
        let parts: Vec<&[u8]> = parts.iter().map(Cow::as_ref).collect();
        replace(path, &parts, Durability::Synced).map_err(|error| failed(path, error, span))
    }

    fn parts(&self, path: &Path, span: Span) -> Result<Vec<Cow<'_, [u8]>>> {
        let wrong = |error: String| failed(path, error, span);
        let mut header = Header { metadata: self.metadata.clone(), ..Header::default() };
        let alignment = header.alignment().map_err(wrong)?;
        let mut data = Vec::new();
        let mut offset = 0;
        for item in StateItem::all(&self.state) {
            let format = id_of(item.dtype())
                .ok_or_else(|| wrong(format!("{}: the format has no {}", item.name, item.dtype())))?;
            let dims = item.shape().to_vec();
            header.tensors.push(TensorInfo { name: item.name.into(), dims, format, offset });
            let bytes = item.read("save", span)?;
            let padding = bytes.len().next_multiple_of(alignment) - bytes.len();
            offset += bytes.len() + padding;
            data.extend([bytes, Cow::Owned(vec![0; padding])]);
        }
        let header = header.to_bytes().map_err(wrong)?;
        Ok(std::iter::once(Cow::Owned(header)).chain(data).collect())
    }
}

fn id_of(dtype: &str) -> Option<u32> {
    let plain = PLAIN.iter().find(|(_, name)| *name == dtype).map(|&(id, _)| id);
    plain.or_else(|| BlockFormat::of(dtype).map(BlockFormat::id))
}

/// Reads a file by ranges.
///
/// # Errors
/// What is wrong with it, and those of the reader.
async fn fetch(reader: impl RangeReader, span: Span) -> Result<Gguf, Box<StateProblem>> {
    let mut file = Remote::open(reader).await?;
    let name = file.name().to_path_buf();
    let wrong = |error: String| Box::new(problem(&name, error));
    let (mut head, mut end) = (Vec::new(), FIRST);
    let header = loop {
        file.extend(&mut head, end).await.map_err(wrong)?;
        match Header::read(&head) {
            Ok(header) => break header,
            Err(Flaw::Short) if head.len() < file.size().min(LONGEST) => end *= 4,
            Err(flaw) => {
                let other = wrong_kind(&name, magic::GGUF, &head).map(Box::new);
                return Err(other.unwrap_or_else(|| wrong(flaw.to_string())));
            }
        }
    };
    drop(head);
    let mut state = StateDict::new();
    let mut tensors = places(&header, file.size()).map_err(wrong)?;
    tensors.sort_by_key(|(_, place)| place.bytes.start);
    for (info, Place { dtype, bytes }) in tensors {
        let part = file.part(bytes).await.map_err(wrong)?;
        let place = Place { dtype, bytes: 0..part.bytes().len() };
        add(&mut state, &part, info, place, span).map_err(wrong)?;
    }
    let file = Gguf::of(header, state);
    split::part(&file).map_or(Ok(file), |part| Err(wrong(split::expected_whole(part))))
}

/// A tensor's type, and its bytes in a file.
struct Place {
    dtype: String,
    bytes: Range<usize>,
}

/// The tensors of a file of `size` bytes.
///
/// # Errors
/// One that is not in it.
fn places(header: &Header, size: usize) -> Result<Vec<(&TensorInfo, Place)>, String> {
    let place = |(number, info): (usize, &'_ TensorInfo)| {
        let next = header.tensors.get(number + 1).map(|next| next.offset);
        let next = next.filter(|&next| next >= info.offset);
        place(header, info, next, size).map_err(|error| format!("{}: {error}", info.name))
    };
    let places: Result<Vec<Place>, String> = header.tensors.iter().enumerate().map(place).collect();
    Ok(header.tensors.iter().zip(places?).collect())
}

/// Where a tensor is in a file of `size` bytes. Of a format that is not known, its data are all before `next`.
fn place(header: &Header, info: &TensorInfo, next: Option<usize>, size: usize) -> Result<Place, String> {
    let start = header.data.checked_add(info.offset).ok_or("it begins behind every byte")?;
    let plain = PLAIN.iter().find(|(id, _)| *id == info.format).map(|&(_, name)| name);
    let (dtype, end) = match (plain, BlockFormat::of_id(info.format)) {
        (Some(dtype), _) => (dtype.to_string(), start.checked_add(plain_bytes(dtype, info)?)),
        (None, Some(format)) => (format.name().to_string(), start.checked_add(block_bytes(format, info)?)),
        (None, None) => {
            (format!("GGML_{}", info.format), next.map_or(Some(size), |next| next.checked_add(header.data)))
        }
    };
    let there = end.filter(|&end| start <= end && end <= size);
    let end = there.ok_or_else(|| format!("its data end behind the file of {size} bytes"))?;
    format::check(&dtype, &info.dims, end - start)?;
    Ok(Place { dtype, bytes: start..end })
}

/// Adds a tensor whose bytes are at a place of those mapped.
fn add(
    state: &mut StateDict,
    map: &Mapped,
    info: &TensorInfo,
    Place { dtype, bytes }: Place,
    span: Span,
) -> Result<(), String> {
    let added = match format::dtype_of(&dtype) {
        Some(dtype) => map
            .tensor(bytes.start, dtype, &info.dims, span)
            .and_then(|tensor| state.insert(&info.name, &tensor)),
        None => state.insert_raw(&info.name, &map.raw(bytes.start, bytes.end, &dtype, &info.dims)),
    };
    added.map_err(|error| format!("{}: {error}", info.name))
}

fn plain_bytes(dtype: &str, info: &TensorInfo) -> Result<usize, String> {
    // Only then do extents have a product.
    format::check_size(dtype, &info.dims)?;
    Ok(Shape::new(&info.dims).numel() * format::size_of(dtype).unwrap_or_default())
}

fn block_bytes(format: BlockFormat, info: &TensorInfo) -> Result<usize, String> {
    let row = info.dims.last().copied().unwrap_or(1);
    let whole = row.is_multiple_of(format.block_len());
    let numel = info.dims.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).filter(|_| whole);
    let bytes = numel.and_then(|numel| format.bytes_of(numel));
    bytes.ok_or_else(|| {
        format!("expected rows of whole blocks of {}, found {:?}", format.block_len(), info.dims)
    })
}

impl StateDict {
    /// The tensors of a GGUF file: [`Gguf::open`] without the types of its metadata. Those in blocks are
    /// raw; [`LoadOpts::convert`](crate::LoadOpts::convert) loads them.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    #[track_caller]
    pub fn open_gguf(path: impl AsRef<Path>) -> Result<StateDict> {
        Gguf::open(path).map(Gguf::into_state)
    }
}
