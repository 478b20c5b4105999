//! Tensors by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{DType, Device, Element, Error, Result, Shape, Span, StateProblem};
use crate::io::load::{self, LoadOpts, Source};
use crate::io::raw::RawTensor;
use crate::tensor::Tensor;

/// Tensors by name: the state of a module, an optimizer, a generator.
///
/// A file may hold tensors of types that kiln does not compute with. They are
/// kept apart, as [`RawTensor`]s, and saved as they are;
/// [`StateDict::convert`] makes tensors of them.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    tensors: BTreeMap<String, Tensor>,
    raw: BTreeMap<String, RawTensor>,
    metadata: BTreeMap<String, String>,
}

/// The name under which a file has what is not a tensor.
pub(crate) const METADATA: &str = "__metadata__";

/// A tensor that a state must hold.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedTensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Shape,
    /// Where it is to be.
    pub device: Device,
    /// Other names that what holds it has for it.
    pub aliases: Vec<String>,
    /// Whether it may be quantized.
    pub packs: bool,
}

impl ExpectedTensor {
    /// One like a tensor, on its device.
    pub fn like(name: String, tensor: &Tensor) -> ExpectedTensor {
        let (dtype, shape, device) = (tensor.dtype(), tensor.shape(), tensor.device());
        ExpectedTensor { name, dtype, shape, device, aliases: Vec::new(), packs: false }
    }
    /// One number in host memory.
    pub fn number<T: Element>(name: String) -> ExpectedTensor {
        let (dtype, shape, device) = (T::DTYPE, Shape::scalar(), Device::cpu());
        ExpectedTensor { name, dtype, shape, device, aliases: Vec::new(), packs: false }
    }
    pub fn ty(&self) -> (DType, Shape) {
        (self.dtype, self.shape.clone())
    }
}

impl StateDict {
    /// Without tensors.
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// The error recorded in the tensor, or a name that is there already or
    /// that a file has for its metadata.
    #[track_caller]
    pub fn insert(&mut self, name: impl Into<String>, tensor: &Tensor) -> Result<()> {
        tensor.check()?;
        let name = self.free(name.into())?;
        self.tensors.insert(name, tensor.clone());
        Ok(())
    }

    /// Adds a tensor of a type that kiln does not compute with.
    ///
    /// # Errors
    /// A name that is there already or that a file has for its metadata.
    #[track_caller]
    pub fn insert_raw(&mut self, name: impl Into<String>, tensor: &RawTensor) -> Result<()> {
        let name = self.free(name.into())?;
        self.raw.insert(name, tensor.clone());
        Ok(())
    }

    /// A name under which something can be added.
    #[track_caller]
    fn free(&self, name: String) -> Result<String> {
        let taken = self.tensors.contains_key(&name) || self.raw.contains_key(&name);
        let expected = match &name[..] {
            METADATA => "a name that files do not use themselves",
            _ if taken => "a name that is not there yet",
            _ => return Ok(name),
        };
        let span = Span::caller();
        Err(Error::Argument { call: "insert", expected: expected.into(), found: name, span })
    }

    /// Adds the tensors of another state, as `prefix.name`. Its metadata are
    /// left: they belong to a file.
    ///
    /// # Errors
    /// As [`StateDict::insert`]; what came before the name stays added.
    #[track_caller]
    pub fn extend(&mut self, prefix: &str, other: StateDict) -> Result<()> {
        let name = |name: &str| format!("{prefix}.{name}");
        for (own, tensor) in other.iter() {
            self.insert(name(own), tensor)?;
        }
        other.raw_tensors().try_for_each(|(own, tensor)| self.insert_raw(name(own), tensor))
    }

    /// The tensors that [`StateDict::extend`] added under `prefix`, without it.
    pub fn part(&self, prefix: &str) -> StateDict {
        StateDict {
            tensors: part(&self.tensors, prefix),
            raw: part(&self.raw, prefix),
            metadata: BTreeMap::new(),
        }
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
    /// Names and tensors, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
    /// Number of tensors, without raw ones.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }
    /// Whether there are no tensors; raw ones do not count.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The raw tensor of a name.
    pub fn raw(&self, name: &str) -> Option<&RawTensor> {
        self.raw.get(name)
    }
    /// Names and raw tensors, in the order of the names.
    pub fn raw_tensors(&self) -> impl Iterator<Item = (&str, &RawTensor)> {
        self.raw.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
    /// Makes tensors of raw ones, by [`RawTensor::to_tensor`]. Those of types
    /// that it does not convert stay as they are.
    ///
    /// # Errors
    /// A number that is too large for the type it becomes. Nothing has changed
    /// then.
    #[track_caller]
    pub fn convert(&mut self) -> Result<()> {
        let mut made = Vec::new();
        for (name, raw) in self.raw.iter().filter(|(_, raw)| raw.converted().is_some()) {
            let tensor = raw.to_tensor();
            tensor.check()?;
            made.push((name.clone(), tensor));
        }
        made.iter().for_each(|(name, _)| drop(self.raw.remove(name)));
        self.tensors.extend(made);
        Ok(())
    }

    /// Text by name that a file holds beside the tensors, in its
    /// `__metadata__`. Of several files it is that of all of them; where they
    /// differ, that of the first.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
    /// The same, to be changed before saving.
    pub fn metadata_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.metadata
    }

    /// What a state must hold to be like this one.
    pub(crate) fn targets(&self) -> Vec<ExpectedTensor> {
        self.iter().map(|(name, tensor)| ExpectedTensor::like(name.into(), tensor)).collect()
    }

    /// [`StateDict::take`] by name, of a state in memory.
    pub(crate) fn fitted(&self, targets: &[ExpectedTensor], from: &str, span: Span) -> Result<StateDict> {
        let tensors = self.take(targets, from, Vec::new(), &BTreeSet::new(), span)?;
        let names = targets.iter().map(|target| target.name.clone());
        Ok(StateDict { tensors: names.zip(tensors).collect(), ..StateDict::default() })
    }

    /// A number that [`StateDict::fitted`] has seen to be there.
    pub(crate) fn number<T: Element>(&self, name: &str) -> Result<T> {
        self.tensors[name].item()
    }

    /// The target tensors, in that order, each in memory of its own on its
    /// device. `known` is what is known to be wrong with the state.
    ///
    /// # Errors
    /// Everything that does not fit, at once; or what realizing them says.
    pub(crate) fn take(
        &self,
        targets: &[ExpectedTensor],
        from: &str,
        known: Vec<StateProblem>,
        unread: &BTreeSet<String>,
        span: Span,
    ) -> Result<Vec<Tensor>> {
        let source = Source { state: self, from, problems: known, unread };
        let (tensors, _) = load::load(source, targets, &LoadOpts::default().copy(true), span)?;
        let tensor = |loaded| match loaded {
            load::Loaded::Tensor(tensor) => Some(tensor),
            load::Loaded::Quantized(_) => None,
        };
        Ok(tensors.into_iter().flatten().filter_map(tensor).collect())
    }
}

/// What is there under `prefix`, without it.
fn part<T: Clone>(all: &BTreeMap<String, T>, prefix: &str) -> BTreeMap<String, T> {
    let own = |(name, value): (&String, &T)| {
        let name = name.strip_prefix(prefix)?.strip_prefix('.')?;
        Some((name.to_string(), value.clone()))
    };
    all.iter().filter_map(own).collect()
}
