//! Cells that hold tensors: parameters, optimizer state, running statistics,
//! caches.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::{DType, Device, OpError, Result, Shape, Span};
use crate::ir::Node;
use crate::ir::open::closed;
use crate::ir::pending::{Holder, Pending, register};
use crate::ir::version::{Content, VersionedCell, Versions};
use crate::tensor::{Tensor, function_scope};

/// A cell that holds a tensor.
///
/// Tensors never change; a `Var` does: reading takes a snapshot, [`Var::set`] puts another tensor
/// in. Clones are the same cell. Setting computes nothing. The new value is computed with whatever
/// is next computed on this thread from the same work or the same memory, and by the next step of
/// an optimizer; if nobody else holds the old one then, it is written into the old one's memory. If
/// that fails, the cell holds the old value again: a step happens as a whole or not at all. A value
/// that is computed on the way to something else stays.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let weight = Var::new(Tensor::ones([2], ()));
/// weight.set(weight.get() * 3.0)?;
/// assert_eq!(weight.get().to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
pub struct Var {
    cell: Arc<VarCell>,
}

struct VarCell(Mutex<Versions<Tensor>>);

impl Content for Tensor {
    fn of(node: Option<Arc<Node>>) -> Option<Tensor> {
        node.map(Tensor::from_node)
    }
    fn node(&self) -> Option<&Arc<Node>> {
        self.peek()
    }
}

impl VersionedCell for VarCell {
    type Contents = Tensor;
    fn versions(&self) -> &Mutex<Versions<Tensor>> {
        &self.0
    }
}

/// Marks a tensor whose value stays where it is put, once anything computes it.
pub(crate) fn kept(tensor: Tensor) -> Tensor {
    if let Some(node) = tensor.peek() {
        node.keep();
    }
    tensor
}

impl Var {
    /// A cell holding `tensor`, whose shape, type and device it keeps.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([2, 3], ()));
    /// assert_eq!(state.shape()[..], [2, 3]);
    /// ```
    pub fn new(tensor: Tensor) -> Var {
        Var { cell: Arc::new(VarCell(Mutex::new(Versions::new(kept(tensor))))) }
    }

    /// The tensor held now; what is set later does not change it.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([1], ()));
    /// let before = state.get();
    /// state.set(before.new_ones([1]))?;
    /// assert_eq!(before.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn get(&self) -> Tensor {
        if !function_scope::is_open() {
            return self.held();
        }
        let own = self.clone();
        function_scope::read(self.address(), Arc::new(move || own.held()))
    }

    /// What tells the cell from others.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.cell) as usize
    }

    /// The same, also where a function that is being built sees a parameter.
    pub(crate) fn held(&self) -> Tensor {
        self.lock().now().clone()
    }

    /// Puts `tensor` in.
    ///
    /// # Errors
    /// The error recorded in `tensor` or in what the cell holds, or a shape,
    /// type or device that differs, or a tensor that has a value only inside a
    /// body. The cell then holds what it held.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([1], ()));
    /// assert!(state.set(Tensor::zeros([2], ())).is_err());
    /// assert_eq!(state.get().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn set(&self, tensor: Tensor) -> Result<()> {
        let span = Span::caller();
        let node = tensor.node()?;
        closed([node], "set", span)?;
        let found = node.ty().clone();
        let mut cell = self.lock();
        let expected = cell.now().node()?.ty();
        if *expected != found {
            let error = OpError::new("set", span, format!("{expected}"), format!("{found}"));
            return Err(error.with_shapes([expected.shape.clone(), found.shape.clone()]).into());
        }
        let released = cell.put(kept(tensor));
        drop(cell);
        drop(released);
        let cell: Arc<dyn Holder> = self.cell.clone();
        register([Pending::State(Arc::downgrade(&cell))]);
        Ok(())
    }

    /// Puts a tensor in that may be of another shape, type or device, and stays if it cannot be computed.
    pub(crate) fn replace(&self, tensor: Tensor) -> Result<()> {
        tensor.check()?;
        let released = self.lock().replace(kept(tensor));
        drop(released);
        Ok(())
    }

    /// Takes back what was put in, if it is held still and not computed.
    pub(crate) fn retract(&self, put: &Arc<Node>) {
        let released = self.lock().retract(put);
        drop(released);
    }

    /// Computes the value held, unless it is in memory.
    ///
    /// # Errors
    /// As [`Tensor::realize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([1], ()) + 1.0);
    /// state.realize()?;
    /// assert!(state.get().is_realized());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn realize(&self) -> Result<()> {
        self.get().realize().map(|_| ())
    }

    /// Whether both are the same cell.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([1], ()));
    /// assert!(state.ptr_eq(&state.clone()));
    /// ```
    pub fn ptr_eq(&self, other: &Var) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// The extents of the axes; empty for an invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Var::new(Tensor::zeros([2], ())).shape()[..], [2]);
    /// ```
    pub fn shape(&self) -> Shape {
        self.lock().now().shape()
    }
    /// Type of the elements.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Var::new(Tensor::zeros([2], ())).dtype(), DType::F32);
    /// ```
    pub fn dtype(&self) -> DType {
        self.lock().now().dtype()
    }
    /// Where the tensor is or will be.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let state = Var::new(Tensor::zeros([2], Device::cpu()));
    /// assert_eq!(state.device(), Device::cpu());
    /// ```
    pub fn device(&self) -> Device {
        self.lock().now().device()
    }

    fn lock(&self) -> MutexGuard<'_, Versions<Tensor>> {
        self.cell.lock()
    }
}

impl From<Tensor> for Var {
    fn from(tensor: Tensor) -> Var {
        Var::new(tensor)
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({:?})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::context::{Context, with_context};
    use crate::tensor::testing::{error_text, f32s, pattern};

    #[test]
    fn a_snapshot_stays_and_clones_are_one_cell() {
        let w = Var::new(f32s(&[2], &[1.0, 2.0]));
        let (same, before) = (w.clone(), w.get());
        w.set(w.get() * 2.0).unwrap();
        assert_eq!(before.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(same.get().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert!(w.ptr_eq(&same) && !w.ptr_eq(&Var::new(before)));
    }

    #[test]
    fn a_tensor_that_does_not_fit_changes_nothing() {
        let w = Var::new(f32s(&[2], &[1.0, 2.0]));
        let held = w.get();
        let error = w.set(pattern(&[3], 0)).unwrap_err().to_string();
        assert!(error.contains("expected f32[2], found f32[3]") && error.contains("var.rs"), "{error}");
        assert!(w.set(f32s(&[2], &[0.0; 2]).to_dtype(DType::I64)).is_err());
        let invalid = pattern(&[2], 0) + pattern(&[3], 0);
        assert!(!error_text(&invalid).is_empty());
        assert!(w.set(invalid).is_err());
        assert_eq!(w.get().to_vec::<f32>().unwrap(), held.to_vec::<f32>().unwrap());
    }

    #[test]
    fn an_update_reuses_memory_nobody_else_holds() {
        with_context(&Context::new(), || {
            let n = 1 << 12;
            let (w, g) = (Var::new(pattern(&[n], 1)), pattern(&[n], 2));
            let bytes = 4 * n as u64;
            for _ in 0..3 {
                w.set(w.get() * 0.9 + &g).unwrap();
                let report = w.get().plan().unwrap();
                assert_eq!(report.peak_bytes(), 2 * bytes, "{report}");
                w.realize().unwrap();
            }
            let held = w.get();
            w.set(w.get() * 0.9 + &g).unwrap();
            assert_eq!(w.get().plan().unwrap().peak_bytes(), 3 * bytes);
            w.realize().unwrap();
            assert_ne!(held.to_vec::<f32>().unwrap(), w.get().to_vec::<f32>().unwrap());
        });
    }
}
