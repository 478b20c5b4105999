//! Names of operations by number: a node keeps one in two bytes.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The name under which the user called an operation, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpName(u16);

/// All names, and the number of each; number 0 is none.
struct Names {
    texts: Vec<&'static str>,
    numbers: Option<HashMap<&'static str, u16>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { texts: Vec::new(), numbers: None });

/// Names that a thread finds by their address.
const RECENT: usize = 64;

type Entry = Cell<(*const u8, usize, u16)>;

thread_local! {
    static ENTRIES: [Entry; RECENT] = const { [const { Cell::new((std::ptr::null(), 0, 0)) }; RECENT] };
}

impl OpName {
    /// The name under which gradients are built, whatever they are of.
    pub const GRADIENT: &str = "grad";

    /// The number of a name. Of names beyond 65,535, none.
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
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.texts.get(usize::from(self.0).checked_sub(1)?).copied()
    }
}

#[cold]
fn number(name: &'static str) -> u16 {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let Names { texts, numbers } = &mut *names;
    let numbers = numbers.get_or_insert_with(HashMap::new);
    if let Some(&known) = numbers.get(name) {
        return known;
    }
    let Ok(next) = u16::try_from(texts.len() + 1) else { return 0 };
    texts.push(name);
    numbers.insert(name, next);
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
