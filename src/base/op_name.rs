//! Names of operations, with the regions that they are called in, by number: a node keeps one in two bytes.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::base::Region;

/// The name under which the user called an operation, or none; and the region that this was in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpName(u16);

/// All names, and the number of each; number 0 is none.
struct Names {
    called: Vec<(&'static str, Region)>,
    numbers: Option<HashMap<(&'static str, Region), u16>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { called: Vec::new(), numbers: None });

/// Numbers that names in regions may take; the rest is for names alone.
const IN_REGIONS: usize = 60_000;

/// Names that a thread finds by their address.
const RECENT: usize = 64;

type Entry = Cell<(*const u8, usize, u16)>;

thread_local! {
    static ENTRIES: [Entry; RECENT] = const { [const { Cell::new((std::ptr::null(), 0, 0)) }; RECENT] };
}

impl OpName {
    /// The name under which gradients are built, whatever they are of.
    pub const GRADIENT: &str = "grad";

    /// The number of a name in this thread's region. Of names beyond 65,535, none.
    #[inline]
    pub fn of(name: &'static str) -> OpName {
        let (start, len) = (name.as_ptr(), name.len());
        let found = ENTRIES.try_with(|entries| {
            let entry = &entries[(start as usize >> 2) % RECENT];
            match entry.get() {
                (at, of, number) if at == start && of == len => number,
                _ => {
                    let number = number(name);
                    entry.set((start, len, number));
                    number
                }
            }
        });
        OpName(found.unwrap_or_default())
    }

    /// The name, if there is one.
    pub fn text(self) -> Option<&'static str> {
        Some(self.called()?.0)
    }

    /// The region that the operation was called in.
    pub fn region(self) -> Region {
        self.called().map(|(_, region)| region).unwrap_or_default()
    }

    fn called(self) -> Option<(&'static str, Region)> {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.called.get(usize::from(self.0).checked_sub(1)?).copied()
    }
}

/// Forgets what this thread finds by address, since it is in another region now.
pub(super) fn forget_recent() {
    // A thread that is ending names nothing any more.
    _ = ENTRIES.try_with(|entries| entries.iter().for_each(|entry| entry.set((std::ptr::null(), 0, 0))));
}

#[cold]
fn number(name: &'static str) -> u16 {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let Names { called, numbers } = &mut *names;
    let numbers = numbers.get_or_insert_with(HashMap::new);
    let here = Region::current();
    let region = if called.len() < IN_REGIONS || numbers.contains_key(&(name, here)) {
        here
    } else {
        Region::default()
    };
    if let Some(&known) = numbers.get(&(name, region)) {
        return known;
    }
    let Ok(next) = u16::try_from(called.len() + 1) else { return 0 };
    called.push((name, region));
    numbers.insert((name, region), next);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_wherever_it_lies() {
        let copy: &'static str = Box::leak(String::from("an operation").into_boxed_str());
        assert_eq!(OpName::of("an operation"), OpName::of(copy));
        assert_ne!(OpName::of(copy), OpName::of(&copy[..2]));
        assert_eq!(OpName::of(&copy[..2]).text(), Some("an"));
        assert_eq!(OpName::default().text(), None);
        let there = std::thread::spawn(|| OpName::of("an operation")).join().expect("a thread");
        assert_eq!(there, OpName::of(copy));
    }
}
