//! Scoped thread-local values, restored when a guard is dropped.
//!
//! Guards may be dropped in any order, as they are when futures that hold some
//! take turns on a thread. So a guard does not remember what it replaced: a
//! thread has a list of the open scopes of a kind, a guard takes its own off
//! that list, and what holds is the innermost that is left.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::thread::LocalKey;

/// The open scopes of one kind on a thread, innermost last.
pub struct Scopes<T> {
    open: RefCell<Vec<(u64, T)>>,
    opened: Cell<u64>,
    changed: fn(Option<&T>),
}

impl<T> Scopes<T> {
    /// No scopes.
    pub const fn new() -> Scopes<T> {
        Scopes::told(|_| {})
    }

    /// No scopes; `changed` is told the innermost value whenever that may be another. For what
    /// is read so often that a thread caches it.
    pub const fn told(changed: fn(Option<&T>)) -> Scopes<T> {
        Scopes { open: RefCell::new(Vec::new()), opened: Cell::new(0), changed }
    }

    /// Whether no scope is open.
    pub fn is_empty(&self) -> bool {
        self.open.borrow().is_empty()
    }

    /// The innermost value.
    pub fn innermost(&self) -> Option<T>
    where
        T: Clone,
    {
        self.open.borrow().last().map(|(_, value)| value.clone())
    }

    /// All values, innermost last.
    pub fn all(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.open.borrow().iter().map(|(_, value)| value.clone()).collect()
    }

    fn open(&self, value: T) -> u64 {
        (self.changed)(Some(&value));
        let number = self.opened.get();
        self.opened.set(number + 1);
        self.open.borrow_mut().push((number, value));
        number
    }

    fn close(&self, number: u64) {
        let mut open = self.open.borrow_mut();
        let index = open.iter().rposition(|(other, _)| *other == number);
        let closed = index.map(|index| open.remove(index));
        (self.changed)(open.last().map(|(_, value)| value));
        // What a value does when it is dropped may open scopes.
        drop(open);
        drop(closed);
    }
}

impl<T> Default for Scopes<T> {
    fn default() -> Scopes<T> {
        Scopes::new()
    }
}

/// Ends its scope when dropped, on the thread that opened it.
pub struct Scope<T: 'static> {
    scopes: &'static LocalKey<Scopes<T>>,
    number: u64,
    not_send: PhantomData<*const ()>,
}

impl<T> Scope<T> {
    /// Opens a scope in which `value` is this thread's innermost.
    pub fn open(scopes: &'static LocalKey<Scopes<T>>, value: T) -> Scope<T> {
        Scope { scopes, number: scopes.with(|scopes| scopes.open(value)), not_send: PhantomData }
    }
}

impl<T> Drop for Scope<T> {
    fn drop(&mut self) {
        // A thread that is ending has no scopes any more.
        let _ = self.scopes.try_with(|scopes| scopes.close(self.number));
    }
}

impl<T> fmt::Debug for Scope<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static NUMBERS: Scopes<u32> = const { Scopes::told(|innermost| TOLD.set(innermost.copied())) };
        static TOLD: Cell<Option<u32>> = const { Cell::new(None) };
    }

    fn innermost() -> Option<u32> {
        let found = NUMBERS.with(Scopes::innermost);
        assert_eq!(found, TOLD.get());
        found
    }

    #[test]
    fn in_whatever_order_scopes_end_the_innermost_left_holds() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut scopes = [1, 2, 3].map(|value| Some(Scope::open(&NUMBERS, value)));
            assert_eq!(innermost(), Some(3));
            for ended in order {
                scopes[ended] = None;
                let left = scopes.iter().rposition(Option::is_some).map(|place| place as u32 + 1);
                assert_eq!(innermost(), left, "{order:?}");
            }
        }
    }

    #[test]
    fn a_panic_ends_scopes() {
        let panics = || {
            let _scope = Scope::open(&NUMBERS, 7);
            panic!("on purpose");
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(innermost(), None);
    }
}
