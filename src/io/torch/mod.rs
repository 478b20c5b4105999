//! PyTorch's files (feature `torch`): what `torch.save` makes of a state dict.
//!
//! Such a file is a zip archive of a pickle, which tells of names, shapes and strides, and the memory of
//! each storage. A pickle can call any function; here nothing is executed, and a file that refers to anything
//! but tensors, dictionaries, lists and plain values is refused. Tensors are mapped, also those that are
//! not contiguous or that share a storage.

mod pickle;
mod rebuild;

use std::collections::HashMap;
use std::path::Path;

use crate::base::{Result, Shape, Span};
use crate::io::door::read_file;
use crate::io::format;
use crate::io::magic;
use crate::io::mapped::Mapped;
use crate::io::placed::Placed;
use crate::io::state_dict::StateDict;
use crate::io::torch::pickle::{Object, Pickle, TensorRecord, Value};
use crate::io::zip::{self, Entry};

/// Containers in containers, at most so deep.
const DEEPEST: usize = 64;
/// Values of all containers together for each byte of the pickle: shared ones count each time.
const MOST_SHARED: usize = 4;

/// The name of a tensor that is all of a file.
const ALONE: &str = "tensor";

struct Reader<'a> {
    map: &'a Mapped,
    pickle: Pickle,
    /// Storages by the name of their file.
    files: HashMap<&'a str, &'a Entry>,
    /// How many values may still be looked at.
    left: usize,
    state: StateDict,
    span: Span,
}

impl StateDict {
    /// The tensors of a file that `torch.save` wrote (since PyTorch 1.6). Names of dictionaries in
    /// dictionaries and positions in lists are joined by dots; numbers and text become
    /// [`StateDict::metadata`] under such names. A file that is one tensor has it as `tensor`.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with what is wrong with the file, or with what it refers to that
    /// is not known, since nothing is executed.
    ///
    /// # Examples
    /// ```no_run
    /// use kiln::nn::{Linear, ModuleExt};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, StateDict};
    /// // torch.save({"model": net.state_dict(), "epoch": 3}, "checkpoint.pt")
    /// let file = StateDict::open_torch("checkpoint.pt")?;
    /// assert_eq!(file.metadata()["epoch"], "3");
    /// Linear::new(4, 2, ()).load_state_dict_with(&file.part("model"), LoadOpts::default())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_torch(path: impl AsRef<Path>) -> Result<StateDict> {
        let (path, span) = (path.as_ref(), Span::caller());
        read_file(path, magic::TORCH, span, |map| read(map, span))
    }
}

fn read(map: &Mapped, span: Span) -> Result<StateDict, String> {
    let entries = zip::entries(map.bytes())?;
    let program = entries.iter().find(|entry| entry.name.ends_with("data.pkl"));
    let program = program.ok_or("expected a file data.pkl in the archive")?;
    let prefix = program.name.trim_end_matches("data.pkl");
    if entries.iter().any(|entry| entry.inflated.is_some()) {
        return Err("expected files that are stored, as PyTorch does, found compressed ones".into());
    }
    let order = entries.iter().find(|entry| entry.name.strip_prefix(prefix) == Some("byteorder"));
    if order.is_some_and(|entry| &map.bytes()[entry.start..entry.end] == b"big") {
        return Err("it is big-endian".into());
    }
    let storage = |entry: &'_ Entry| entry.name.strip_prefix(prefix)?.strip_prefix("data/").map(str::len);
    let files = entries.iter().filter_map(|entry| {
        let key = storage(entry)?;
        Some((&entry.name[entry.name.len() - key..], entry))
    });
    let bytes = &map.bytes()[program.start..program.end];
    let pickle = pickle::read(bytes)?;
    let left = bytes.len().saturating_mul(MOST_SHARED);
    let mut reader = Reader { map, pickle, files: files.collect(), left, state: StateDict::new(), span };
    let value = reader.pickle.value.clone();
    reader.add("", &value, 0)?;
    Ok(reader.state)
}

impl Reader<'_> {
    /// Adds what is in a value, under a name.
    fn add(&mut self, name: &str, value: &Value, depth: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(1).ok_or("the pickle refers to the same values too often")?;
        let text = match value {
            Value::Object(number) => return self.add_object(name, *number, depth),
            Value::None | Value::Mark | Value::Global(_) => return Ok(()),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) => text.to_string(),
        };
        self.state.metadata_mut().insert(name.into(), text);
        Ok(())
    }

    fn add_object(&mut self, name: &str, number: usize, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("expected at most {DEEPEST} containers in each other"));
        }
        let joined = |own: String| if name.is_empty() { own } else { format!("{name}.{own}") };
        // What is looked at is taken out, so that the list stays free to be read; a cycle finds it empty.
        match std::mem::replace(&mut self.pickle.objects[number], Object::List(Vec::new())) {
            Object::List(list) => {
                for (position, value) in list.iter().enumerate() {
                    self.add(&joined(position.to_string()), value, depth + 1)?;
                }
                self.pickle.objects[number] = Object::List(list);
            }
            Object::Dict(dict) => {
                for (key, value) in &dict {
                    self.add(&joined(key_of(key)?), value, depth + 1)?;
                }
                self.pickle.objects[number] = Object::Dict(dict);
            }
            Object::Tensor(record) => {
                let name = if name.is_empty() { ALONE } else { name };
                self.add_tensor(name, &record).map_err(|error| format!("{name}: {error}"))?;
                self.pickle.objects[number] = Object::Tensor(record);
            }
            Object::Storage(storage) => self.pickle.objects[number] = Object::Storage(storage),
        }
        Ok(())
    }

    fn add_tensor(&mut self, name: &str, record: &TensorRecord) -> Result<(), String> {
        let TensorRecord { dtype, key, offset, dims, strides } = record;
        format::check_size(dtype, dims)?;
        let entry = self.files.get(&**key).ok_or_else(|| format!("the archive has no data/{key}"))?;
        let size = format::size_of(dtype).unwrap_or(1);
        let start = offset.checked_mul(size).and_then(|offset| entry.start.checked_add(offset));
        let start = start.ok_or("it begins behind every byte")?;
        let dense = Shape::new(dims).strides();
        let mut axes = dims.iter().zip(strides).zip(&dense);
        let row_major = axes.all(|((&extent, &stride), &dense)| extent <= 1 || stride as i64 == dense);
        let strides = if row_major { None } else { Some(&strides[..]) };
        Placed { name, dtype, dims, strides, start, end: entry.end }.insert(
            &mut self.state,
            self.map,
            self.span,
        )
    }
}

/// A key of a dictionary as a part of a name.
fn key_of(key: &Value) -> Result<String, String> {
    match key {
        Value::Text(text) => Ok(text.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::None | Value::Float(_) | Value::Global(_) | Value::Object(_) | Value::Mark => {
            Err("expected text or integers as the keys of dictionaries".into())
        }
    }
}
