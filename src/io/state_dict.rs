//! Tensors by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{DType, Device, Element, Error, Result, Shape, Span, StateProblem};
use crate::ir::{Node, Op};
use crate::plan;
use crate::tensor::Tensor;

/// Tensors by name: the state of a module, an optimizer, a generator.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    tensors: BTreeMap<String, Tensor>,
}

/// A tensor that a state must hold.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub name: String,
    pub dtype: DType,
    pub shape: Shape,
    /// Where it is to be.
    pub device: Device,
}

impl Wanted {
    /// One like a tensor, on its device.
    pub fn like(name: String, tensor: &Tensor) -> Wanted {
        Wanted { name, dtype: tensor.dtype(), shape: tensor.shape(), device: tensor.device() }
    }
    /// One number in host memory.
    pub fn number<T: Element>(name: String) -> Wanted {
        Wanted { name, dtype: T::DTYPE, shape: Shape::scalar(), device: Device::cpu() }
    }
    fn ty(&self) -> (DType, Shape) {
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
    /// The mistake recorded in the tensor, or a name that is there already.
    pub fn insert(&mut self, name: impl Into<String>, tensor: &Tensor) -> Result<()> {
        tensor.check()?;
        let name = name.into();
        if self.tensors.contains_key(&name) {
            let (expected, found) = ("a name that is not there yet".into(), name);
            return Err(Error::Argument { call: "insert", expected, found });
        }
        self.tensors.insert(name, tensor.clone());
        Ok(())
    }

    /// Adds the tensors of another state, as `prefix.name`.
    ///
    /// # Errors
    /// As [`StateDict::insert`]; what came before the name stays added.
    pub fn extend(&mut self, prefix: &str, other: StateDict) -> Result<()> {
        other.tensors.iter().try_for_each(|(name, tensor)| self.insert(format!("{prefix}.{name}"), tensor))
    }

    /// The tensors that [`StateDict::extend`] added under `prefix`, without it.
    pub fn part(&self, prefix: &str) -> StateDict {
        let own = |(name, tensor): (&String, &Tensor)| {
            let name = name.strip_prefix(prefix)?.strip_prefix('.')?;
            Some((name.to_string(), tensor.clone()))
        };
        StateDict { tensors: self.tensors.iter().filter_map(own).collect() }
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
    /// Names and tensors, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }
    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// What a state must hold to be like this one.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.iter().map(|(name, tensor)| Wanted::like(name.into(), tensor)).collect()
    }

    /// [`StateDict::take`] by name, of a state in memory.
    pub(crate) fn fitted(&self, wanted: &[Wanted], from: &str, span: Span) -> Result<StateDict> {
        let tensors = self.take(wanted, from, Vec::new(), &BTreeSet::new(), span)?;
        let names = wanted.iter().map(|wanted| wanted.name.clone());
        Ok(StateDict { tensors: names.zip(tensors).collect() })
    }

    /// A number that [`StateDict::fitted`] has seen to be there.
    pub(crate) fn number<T: Element>(&self, name: &str) -> Result<T> {
        self.tensors[name].item()
    }

    /// What does not fit what is wanted; of names in `unread` nothing is known.
    fn problems(&self, wanted: &[Wanted], unread: &BTreeSet<String>) -> Vec<StateProblem> {
        let compare = |wanted: &Wanted| {
            let (name, expected) = (wanted.name.clone(), wanted.ty());
            match self.get(&name) {
                None if unread.contains(&name) => None,
                None => Some(StateProblem::Missing { name, expected }),
                Some(tensor) if type_of(tensor) == expected => None,
                Some(tensor) => Some(StateProblem::Mismatch { name, expected, found: type_of(tensor) }),
            }
        };
        let names: BTreeSet<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        let surplus = self
            .iter()
            .filter(|(name, _)| !names.contains(name))
            .map(|(name, tensor)| StateProblem::Unexpected { name: name.into(), found: type_of(tensor) });
        wanted.iter().filter_map(compare).chain(surplus).collect()
    }

    /// The tensors wanted, in that order, each in memory of its own where it
    /// is wanted. `known` is what is known to be wrong with the state.
    ///
    /// # Errors
    /// Everything that does not fit, at once; or what realizing them says.
    pub(crate) fn take(
        &self,
        wanted: &[Wanted],
        from: &str,
        known: Vec<StateProblem>,
        unread: &BTreeSet<String>,
        span: Span,
    ) -> Result<Vec<Tensor>> {
        let mut problems = known;
        problems.extend(self.problems(wanted, unread));
        if !problems.is_empty() {
            return Err(Error::State { from: from.into(), problems: problems.into() });
        }
        let own = |wanted: &Wanted| {
            let held = &self.tensors[&wanted.name];
            Tensor::apply("load", span, Op::Copy(wanted.device), &[held])
        };
        let tensors: Vec<Tensor> = wanted.iter().map(own).collect();
        let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
        plan::realize(&nodes, span)?;
        Ok(tensors)
    }
}

fn type_of(tensor: &Tensor) -> (DType, Shape) {
    (tensor.dtype(), tensor.shape())
}
