//! Values that are made where they stay.

use std::sync::Arc;

/// A value that several may hold, made once there is memory for it, then finished there. `Arc::new` makes
/// it before, so that it is put together in one place and copied to another, in larger
/// parts than it was written in: the processor then has to wait for what was written, every time.
#[inline(always)]
pub fn arc<T>(make: impl FnOnce() -> T, finish: impl FnOnce(&mut T)) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    let value = Arc::as_ptr(&place).cast_mut().cast::<T>();
    // SAFETY: the place is for such a value, and nobody else has it.
    unsafe { value.write(make()) };
    // SAFETY: the value has been written. If `make` panics, the place is dropped as it is, without one.
    let place = unsafe { place.assume_init() };
    // SAFETY: still nobody else has it.
    finish(unsafe { &mut *value });
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_made_in_place_is_held_and_dropped_once() {
        let part = Arc::new(());
        let whole = arc(|| vec![part.clone()], |parts| parts.push(part.clone()));
        let other = whole.clone();
        assert_eq!((Arc::strong_count(&whole), Arc::strong_count(&part)), (2, 3));
        drop(whole);
        assert_eq!((other.len(), Arc::strong_count(&part)), (2, 3));
        drop(other);
        assert_eq!(Arc::strong_count(&part), 1);
    }

    #[test]
    fn a_value_is_dropped_if_it_was_made_but_not_finished() {
        let part = Arc::new(());
        let made = std::panic::catch_unwind(|| arc(|| -> Arc<()> { panic!("not made") }, |_| ()));
        assert!(made.is_err());
        let made = std::panic::catch_unwind(|| arc(|| part.clone(), |_| panic!("not finished")));
        assert!(made.is_err());
        assert_eq!(Arc::strong_count(&part), 1);
    }
}
