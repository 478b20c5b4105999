//! NumPy's files (feature `npy`): `.npy` has one tensor, `.npz` several with names.
//!
//! What is stored is mapped, also in Fortran's order; what is compressed or big-endian is copied. `BF16` is
//! written as the package `ml_dtypes` does: two bytes that NumPy alone gives no meaning to.

mod header;

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use flate2::read::DeflateDecoder;

use crate::base::file::{Durability, replace};
use crate::base::{Result, Span};
use crate::io::door::{failed, read_file};
use crate::io::format;
use crate::io::item::{StateItem, TensorData};
use crate::io::magic;
use crate::io::mapped::Mapped;
use crate::io::npy::header::Header;
use crate::io::placed::Placed;
use crate::io::state_dict::StateDict;
use crate::io::zip::{self, Entry};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// The ending of names in an archive.
const ENDING: &str = ".npy";

/// Adds the array that is all of a part of a file.
///
/// # Errors
/// What is wrong with it.
fn add(
    state: &mut StateDict,
    name: &str,
    map: &Mapped,
    part: std::ops::Range<usize>,
    span: Span,
) -> Result<(), String> {
    let header = Header::read(&map.bytes()[part.clone()])?;
    let start = part.start + header.data;
    format::check(header.dtype, &header.dims, part.end - start)?;
    let strides = header.fortran_order.then(|| fortran_strides(&header.dims));
    let (dtype, dims, strides) = (header.dtype, &header.dims[..], strides.as_deref());
    if header.big_endian {
        let size = format::size_of(dtype).unwrap_or(1);
        let mut bytes = map.bytes()[start..part.end].to_vec();
        // The two halves of a complex number are swapped each.
        let number = if dtype == "C64" { size / 2 } else { size };
        bytes.chunks_exact_mut(number).for_each(<[u8]>::reverse);
        let end = bytes.len();
        let swapped = Mapped::from_bytes(&bytes).map_err(|error| error.to_string())?;
        return Placed { name, dtype, dims, strides, start: 0, end }.insert(state, &swapped, span);
    }
    Placed { name, dtype, dims, strides, start, end: part.end }.insert(state, map, span)
}

/// Elements between neighbours, the first axis being the densest.
fn fortran_strides(dims: &[usize]) -> Vec<usize> {
    let products = dims.iter().scan(1usize, |product, &extent| {
        *product = product.saturating_mul(extent);
        Some(*product)
    });
    std::iter::once(1).chain(products).take(dims.len()).collect()
}

/// Adds a file of an archive.
fn add_entry(state: &mut StateDict, map: &Mapped, entry: &Entry, span: Span) -> Result<(), String> {
    let name = entry.name.strip_suffix(ENDING).ok_or("expected only .npy files in the archive")?;
    let Some(size) = entry.inflated else { return add(state, name, map, entry.start..entry.end, span) };
    // The size is no more than deflate can make of the bytes: a lie costs no memory.
    let mut bytes = Vec::new();
    let inflating = DeflateDecoder::new(&map.bytes()[entry.start..entry.end]).take(size as u64 + 1);
    { inflating }.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() != size {
        return Err(format!("expected {size} bytes when inflated, found {}", bytes.len()));
    }
    let inflated = Mapped::from_bytes(&bytes).map_err(|error| error.to_string())?;
    add(state, name, &inflated, 0..size, span)
}

/// The parts of a `.npy` file.
fn parts<'a>(item: &StateItem<'a>, path: &Path, span: Span) -> Result<Vec<Cow<'a, [u8]>>> {
    let header = Header::to_bytes(item.dtype(), &item.shape());
    let header = header
        .ok_or_else(|| failed(path, format!("{}: NumPy has no type {}", item.name, item.dtype()), span))?;
    Ok(vec![Cow::Owned(header), item.read("save", span)?])
}

/// A file of an archive: its name and its parts.
fn file<'a>(item: &StateItem<'a>, path: &Path, span: Span) -> Result<(String, Vec<Cow<'a, [u8]>>)> {
    if item.name.len() > usize::from(u16::MAX) - ENDING.len() {
        return Err(failed(path, "expected names of at most 65531 bytes", span));
    }
    Ok((format!("{}{ENDING}", item.name), parts(item, path, span)?))
}

fn write(path: &Path, parts: &[Cow<'_, [u8]>], span: Span) -> Result<()> {
    let parts: Vec<&[u8]> = parts.iter().map(Cow::as_ref).collect();
    replace(path, &parts, Durability::Synced).map_err(|error| failed(path, error, span))
}

impl Tensor {
    /// The tensor of a `.npy` file, mapped into host memory where it can be. Types that kiln does not
    /// compute with are converted by [`RawTensor::to_tensor`](crate::RawTensor::to_tensor).
    ///
    /// PyTorch: `torch.from_numpy(numpy.load(path))`.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with what is wrong with the file.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// # let path = std::env::temp_dir().join(format!("kiln-npy-{}", std::process::id()));
    /// Tensor::from([[1f32, 2.0], [3.0, 4.0]]).save_npy(&path)?; // numpy.load reads it
    /// let x = Tensor::open_npy(&path)?;
    /// assert_eq!((x.shape().to_string(), x.i((1, 0)).item::<f32>()?), ("[2, 2]".into(), 3.0));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_npy(path: impl AsRef<Path>) -> Result<Tensor> {
        const NAME: &str = "array";
        let (path, site) = (path.as_ref(), CallSite::here("open_npy"));
        let mut state = StateDict::new();
        read_file(path, magic::NPY, site.span, |map| {
            add(&mut state, NAME, map, 0..map.bytes().len(), site.span)
        })?;
        let converted = || state.raw(NAME).map(|raw| raw.to_tensor_at(site));
        let tensor = state.get(NAME).cloned().or_else(converted);
        let tensor = tensor.ok_or_else(|| failed(path, "expected an array", site.span))?;
        tensor.check().map(|()| tensor)
    }

    /// Writes a `.npy` file of version 1, in row-major order, as [`StateDict::save`] does.
    ///
    /// # Errors
    /// What computing the tensor says, and those of the file system.
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        self.check()?;
        let item = StateItem { name: "array", value: TensorData::Tensor(self) };
        write(path, &parts(&item, path, span)?, span)
    }
}

impl StateDict {
    /// The arrays of a `.npz` file by name, mapped into host memory unless they are compressed.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with what is wrong with the file.
    ///
    /// # Examples
    /// ```
    /// use kiln::StateDict;
    /// use kiln::prelude::*;
    /// # let path = std::env::temp_dir().join(format!("kiln-npz-{}", std::process::id()));
    /// let mut state = StateDict::new();
    /// state.insert("x", &Tensor::from([1i64, 2]))?;
    /// state.insert("layer.y", &Tensor::from([true]))?;
    /// state.save_npz(&path)?;
    /// let opened = StateDict::open_npz(&path)?;
    /// assert_eq!(opened.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["layer.y", "x"]);
    /// assert_eq!(opened.get("x").unwrap().to_vec::<i64>()?, [1, 2]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_npz(path: impl AsRef<Path>) -> Result<StateDict> {
        let (path, span) = (path.as_ref(), Span::caller());
        read_file(path, magic::NPZ, span, |map| {
            let mut state = StateDict::new();
            for entry in &zip::entries(map.bytes())? {
                add_entry(&mut state, map, entry, span)
                    .map_err(|error| format!("{}: {error}", entry.name))?;
            }
            Ok(state)
        })
    }

    /// Writes a `.npz` file, whose arrays are not compressed and can be mapped, as [`StateDict::save`] does.
    ///
    /// # Errors
    /// What computing the tensors says, types that NumPy does not have, and those of the file system.
    #[track_caller]
    pub fn save_npz(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let items = StateItem::all(self);
        let files = items.iter().map(|item| file(item, path, span)).collect::<Result<Vec<_>>>()?;
        write(path, &zip::archive(files), span)
    }
}
