//! `Arc`s with a single owner as yet.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// An `Arc` known to have one owner: it may be written to without checking the reference
/// count, which would take longer than the write.
#[derive(Debug)]
pub struct UniqueArc<T>(Arc<T>);

impl<T> UniqueArc<T> {
    /// A value made once there is memory for it. `Arc::new` makes it before, so that it is put
    /// together in one place and copied to another, in larger parts than it was written in: the
    /// processor then has to wait for what was written, every time.
    #[inline(always)]
    pub fn new(make: impl FnOnce() -> T) -> UniqueArc<T> {
        let place = Arc::<T>::new_uninit();
        // SAFETY: the place is for such a value, and nobody else has it.
        unsafe { Arc::as_ptr(&place).cast_mut().cast::<T>().write(make()) };
        // SAFETY: the value has been written. If `make` panics, the place is dropped as it is, without one.
        UniqueArc(unsafe { place.assume_init() })
    }

    /// A value that is held here alone, not even weakly elsewhere.
    ///
    /// # Errors
    /// The value, if it is held elsewhere.
    #[inline]
    pub fn of(mut held: Arc<T>) -> Result<UniqueArc<T>, Arc<T>> {
        if Arc::get_mut(&mut held).is_some() { Ok(UniqueArc(held)) } else { Err(held) }
    }

    /// The value, for others to hold too.
    #[inline]
    pub fn share(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for UniqueArc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for UniqueArc<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has held the value since it was made, or since `UniqueArc::of` looked, and
        // the `Arc` is not given to anybody while this is.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{catch_unwind, resume_unwind};

    use super::*;

    #[test]
    fn a_value_made_in_place_is_held_and_dropped_once() {
        let part = Arc::new(());
        let mut parts = UniqueArc::new(|| vec![part.clone()]);
        parts.push(part.clone());
        let whole = parts.share();
        let other = whole.clone();
        assert_eq!((Arc::strong_count(&whole), Arc::strong_count(&part)), (2, 3));
        drop(whole);
        assert_eq!((other.len(), Arc::strong_count(&part)), (2, 3));
        drop(other);
        assert_eq!(Arc::strong_count(&part), 1);
    }

    thread_local! {
        static DROPPED: Cell<bool> = const { Cell::new(false) };
    }

    struct Told;

    impl Drop for Told {
        fn drop(&mut self) {
            DROPPED.set(true);
        }
    }

    #[test]
    fn a_value_that_cannot_be_made_is_not_dropped() {
        let made = catch_unwind(|| UniqueArc::new(|| -> Told { resume_unwind(Box::new(())) }));
        assert!(made.is_err() && !DROPPED.get());
        drop(UniqueArc::new(|| Told));
        assert!(DROPPED.get());
    }

    #[test]
    fn a_value_that_is_held_elsewhere_is_given_back() {
        let held = Arc::new(1);
        let other = held.clone();
        let held = UniqueArc::of(held).unwrap_err();
        drop(other);
        let weak = Arc::downgrade(&held);
        let held = UniqueArc::of(held).unwrap_err();
        drop(weak);
        let last = UniqueArc::of(held).map(|mut sole| {
            *sole += 1;
            sole.share()
        });
        assert_eq!(last, Ok(Arc::new(2)));
    }
}
