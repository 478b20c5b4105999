//! Copy-on-write `Arc`s, and an interner for them.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A copy-on-write `Arc`: a holder that writes to a shared value clones it first.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CowArc<T>(Arc<T>);

impl<T> Deref for CowArc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CowArc<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> CowArc<T> {
    /// Whether two share one value.
    pub fn is(&self, other: &CowArc<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for CowArc<T> {
    fn from(value: T) -> CowArc<T> {
        CowArc(Arc::new(value))
    }
}

impl From<&str> for CowArc<String> {
    fn from(text: &str) -> CowArc<String> {
        text.to_owned().into()
    }
}

impl<T, A> FromIterator<A> for CowArc<T>
where
    T: FromIterator<A>,
{
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> CowArc<T> {
        T::from_iter(items).into()
    }
}

impl<'a, T> IntoIterator for &'a CowArc<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;
    fn into_iter(self) -> Self::IntoIter {
        self.0.as_ref().into_iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for CowArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for CowArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An interner: equal values share one allocation.
#[derive(Debug)]
pub struct Interner<T>(HashSet<CowArc<T>>);

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner(HashSet::new())
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// Replaces a value by the interned one that is equal, or interns it.
    pub fn share(&mut self, value: &mut CowArc<T>) {
        match self.0.get(value) {
            Some(known) => value.0 = known.0.clone(),
            None => drop(self.0.insert(CowArc(value.0.clone()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_written_to() {
        let mut pool = Interner::default();
        let (mut one, mut other) = (CowArc::from(vec![1]), CowArc::from(vec![1]));
        pool.share(&mut one);
        pool.share(&mut other);
        assert!(Arc::ptr_eq(&one.0, &other.0));
        other.push(2);
        assert_eq!((one.to_vec(), other.to_vec()), (vec![1], vec![1, 2]));
    }
}
