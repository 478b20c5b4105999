//! A free list: memory of values that are no longer needed, reused for new ones.

use std::cell::RefCell;

use crate::base::unique_arc::UniqueArc;

/// Free memory for values of one type. To take some and to put it back needs no locked instruction;
/// the C library's allocator takes about five in a program of several threads.
#[derive(Debug)]
pub struct FreeList<T> {
    free: RefCell<Vec<UniqueArc<T>>>,
    most: usize,
}

impl<T> FreeList<T> {
    /// An empty list of `most` entries at most.
    pub const fn new(most: usize) -> FreeList<T> {
        FreeList { free: RefCell::new(Vec::new()), most }
    }

    /// The entry freed last, which is the likeliest to be in a cache.
    #[inline]
    pub fn take(&self) -> Option<UniqueArc<T>> {
        self.free.borrow_mut().pop()
    }

    /// Adds an entry, or drops it if the list is full. Its value stays until another overwrites it.
    #[inline]
    pub fn put(&self, entry: UniqueArc<T>) {
        let mut free = self.free.borrow_mut();
        if free.len() < self.most {
            free.push(entry);
        } else {
            // What is dropped may come back here.
            drop(free);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_full_list_drops_what_is_put_on_it() {
        let list = FreeList::new(1);
        let parts = [Arc::new(1), Arc::new(2)];
        parts.iter().for_each(|part| list.put(UniqueArc::new(|| part.clone())));
        assert_eq!(parts.each_ref().map(Arc::strong_count), [2, 1]);
        assert_eq!(list.take().map(|entry| **entry), Some(1));
        assert!(list.take().is_none());
    }
}
