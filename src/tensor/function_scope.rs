//! What the body of a [`Function`](crate::tensor::function::Function) depends on beside its inputs, found while the
//! body is built: cells, for which it sees parameters, and switches.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use crate::ir::Op;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

thread_local! {
    static OPEN: RefCell<Vec<FunctionScope>> = const { RefCell::new(Vec::new()) };
    /// How many there are, which every cell asks for.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A cell that a body reads.
#[derive(Clone)]
pub(super) struct CellInput {
    address: usize,
    read: Arc<dyn Fn() -> Tensor + Send + Sync>,
    /// What the body sees.
    parameter: Tensor,
}

impl CellInput {
    /// What the cell holds now; to a function around, the parameter that stands for it there.
    pub(super) fn now(&self) -> Tensor {
        if is_open() { read(self.address, self.read.clone()) } else { (self.read)() }
    }
    pub(super) fn parameter(&self) -> &Tensor {
        &self.parameter
    }
}

impl fmt::Debug for CellInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CellInput({:?})", self.parameter)
    }
}

/// Whether a switch that a body asks for stands as it did.
#[derive(Clone)]
pub(super) struct Assumption(Arc<dyn Fn() -> bool + Send + Sync>);

impl Assumption {
    /// Whether it holds; a function around depends on it too.
    pub(super) fn holds(&self) -> bool {
        assume(self.0.clone());
        (self.0)()
    }
}

impl fmt::Debug for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Assumption")
    }
}

/// What a body depends on.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    pub(super) cells: Vec<CellInput>,
    pub(super) assumptions: Vec<Assumption>,
}

/// A body that is being built.
struct FunctionScope {
    site: CallSite,
    inputs: usize,
    found: Dependencies,
}

/// Until it is dropped, this thread builds a body.
pub(super) struct OpenScope(());

impl OpenScope {
    /// Of a function of so many inputs.
    pub(super) fn new(site: CallSite, inputs: usize) -> OpenScope {
        let scope = FunctionScope { site, inputs, found: Dependencies::default() };
        OPEN.with_borrow_mut(|open| open.push(scope));
        DEPTH.set(DEPTH.get() + 1);
        OpenScope(())
    }

    /// What the body has turned out to depend on.
    pub(super) fn close(self) -> Dependencies {
        let take = |scope: &mut FunctionScope| std::mem::take(&mut scope.found);
        OPEN.with_borrow_mut(|open| open.last_mut().map(take)).unwrap_or_default()
    }
}

impl Drop for OpenScope {
    fn drop(&mut self) {
        // Dropped while the list is free to be looked at.
        let _ended = OPEN.with_borrow_mut(Vec::pop);
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether this thread builds a body of a function: then cells are read by [`read`].
pub(crate) fn is_open() -> bool {
    DEPTH.get() > 0
}

/// What the body that is being built sees of a cell: a parameter, always the same. The cell is known by its
/// `address`, at which nothing else is while `cell` lives.
pub(crate) fn read(address: usize, cell: Arc<dyn Fn() -> Tensor + Send + Sync>) -> Tensor {
    let known = |scope: &FunctionScope| {
        let cell = scope.found.cells.iter().find(|cell| cell.address == address)?;
        Some(cell.parameter.clone())
    };
    let innermost = OPEN.with_borrow(|open| open.last().map(|scope| (known(scope), scope.site)));
    let Some((known, site)) = innermost else { return cell() };
    known.unwrap_or_else(|| {
        // Not while the list is in use: a cell may be one of a user's.
        let now = cell();
        let Some(ty) = now.ty().cloned() else { return now };
        OPEN.with_borrow_mut(|open| match open.last_mut() {
            Some(scope) => {
                let number = scope.inputs + scope.found.cells.len();
                let parameter = site.apply(Op::Param(number as u32, ty), &[]);
                scope.found.cells.push(CellInput { address, read: cell, parameter: parameter.clone() });
                parameter
            }
            None => now,
        })
    })
}

/// Says what the body that is being built depends on beside cells: it is built again where that no longer holds.
pub(crate) fn assume(holds: Arc<dyn Fn() -> bool + Send + Sync>) {
    OPEN.with_borrow_mut(|open| {
        if let Some(scope) = open.last_mut() {
            scope.found.assumptions.push(Assumption(holds));
        }
    });
}
