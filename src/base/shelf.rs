//! Places of values that are no longer needed, for others to be made in.

use std::cell::RefCell;

use crate::base::sole::Sole;

/// Places that wait for a value. To take one and to put it back needs no locked instruction; the C
/// library's allocator takes about five in a program of several threads.
#[derive(Debug)]
pub struct Shelf<T> {
    places: RefCell<Vec<Sole<T>>>,
    most: usize,
}

impl<T> Shelf<T> {
    /// An empty shelf for so many places at most.
    pub const fn new(most: usize) -> Shelf<T> {
        Shelf { places: RefCell::new(Vec::new()), most }
    }

    /// A place, the last one put here first: it is the likeliest to be in a cache.
    #[inline]
    pub fn take(&self) -> Option<Sole<T>> {
        self.places.borrow_mut().pop()
    }

    /// Keeps a place, or drops it where there are enough. What is in it stays until another value
    /// takes its place.
    #[inline]
    pub fn put(&self, place: Sole<T>) {
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
        let shelf = Shelf::new(1);
        let parts = [Arc::new(1), Arc::new(2)];
        parts.iter().for_each(|part| shelf.put(Sole::new(|| part.clone())));
        assert_eq!(parts.each_ref().map(Arc::strong_count), [2, 1]);
        assert_eq!(shelf.take().map(|place| **place), Some(1));
        assert!(shelf.take().is_none());
    }
}
