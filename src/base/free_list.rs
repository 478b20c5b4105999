//! Places of values that are no longer needed, for others to be made in.

use std::cell::RefCell;

use crate::base::unique_arc::UniqueArc;

/// Places that wait for a value. To take one and to put it back needs no locked instruction; the C
/// library's allocator takes about five in a program of several threads.
#[derive(Debug)]
pub struct FreeList<T> {
    places: RefCell<Vec<UniqueArc<T>>>,
    most: usize,
}

impl<T> FreeList<T> {
    /// An empty shelf for so many places at most.
    pub const fn new(most: usize) -> FreeList<T> {
        FreeList { places: RefCell::new(Vec::new()), most }
    }

    /// A place, the last one put here first: it is the likeliest to be in a cache.
    #[inline]
    pub fn take(&self) -> Option<UniqueArc<T>> {
        self.places.borrow_mut().pop()
    }

    /// Keeps a place, or drops it where there are enough. What is in it stays until another value
    /// takes its place.
    #[inline]
    pub fn put(&self, place: UniqueArc<T>) {
        let mut places = self.places.borrow_mut();
        if places.len() < self.most {
            places.push(place);
        } else {
            // What is dropped may come back here.
            drop(places);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_full_shelf_drops_what_is_put_on_it() {
        let shelf = FreeList::new(1);
        let parts = [Arc::new(1), Arc::new(2)];
        parts.iter().for_each(|part| shelf.put(UniqueArc::new(|| part.clone())));
        assert_eq!(parts.each_ref().map(Arc::strong_count), [2, 1]);
        assert_eq!(shelf.take().map(|place| **place), Some(1));
        assert!(shelf.take().is_none());
    }
}
