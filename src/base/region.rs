//! Named regions of the user's program, nested, by number: an operation's name keeps the one it was called in.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::op_name;
use crate::base::scope::{Scope, Scopes};

/// A region, or none. Its path names it and those around it: `epoch/forward`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(u16);

/// The paths of all regions; number 0 is none.
struct Regions {
    paths: Vec<Arc<str>>,
    numbers: Option<HashMap<Arc<str>, u16>>,
}

static REGIONS: Mutex<Regions> = Mutex::new(Regions { paths: Vec::new(), numbers: None });

thread_local! {
    static OPEN: Scopes<Region> = const { Scopes::told(changed) };
    static CURRENT: Cell<Region> = const { Cell::new(Region(0)) };
}

fn changed(innermost: Option<&Region>) {
    CURRENT.set(innermost.copied().unwrap_or_default());
    op_name::forget_recent();
}

/// The name of the region in which an optimizer builds a step.
pub const OPTIMIZER: &str = "optimizer";

/// What separates the names of a path.
pub const SEPARATOR: char = '/';

impl Region {
    /// The innermost one that this thread is in.
    pub fn current() -> Region {
        CURRENT.try_with(Cell::get).unwrap_or_default()
    }

    /// The region of a name inside this one. Of regions beyond 65,535, this one.
    #[must_use]
    pub fn inside(self, name: &str) -> Region {
        let path: Arc<str> = match self.path() {
            Some(outer) => format!("{outer}{SEPARATOR}{name}").into(),
            None => name.into(),
        };
        let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let Regions { paths, numbers } = &mut *regions;
        let numbers = numbers.get_or_insert_with(HashMap::new);
        if let Some(&known) = numbers.get(&path) {
            return Region(known);
        }
        let Ok(next) = u16::try_from(paths.len() + 1) else { return self };
        paths.push(path.clone());
        numbers.insert(path, next);
        Region(next)
    }

    /// Makes it this thread's innermost until the guard is dropped.
    pub fn enter(self) -> InRegion {
        InRegion(Scope::open(&OPEN, self))
    }

    /// The names of the regions around it and its own, if it is one.
    pub fn path(self) -> Option<Arc<str>> {
        let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
        regions.paths.get(usize::from(self.0).checked_sub(1)?).cloned()
    }
}

/// Until it is dropped, its thread is in a region.
#[must_use = "the region ends when the guard is dropped"]
#[derive(Debug)]
pub struct InRegion(#[expect(dead_code, reason = "held to be dropped")] Scope<Region>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::OpName;

    #[test]
    fn names_know_the_region_that_they_are_used_in() {
        let outer = Region::default().inside("region test");
        let inner = outer.inside("inner");
        let plain = OpName::of("an operation in regions");
        let _outer = outer.enter();
        let in_outer = OpName::of("an operation in regions");
        let in_inner = {
            let _inner = inner.enter();
            OpName::of("an operation in regions")
        };
        assert_eq!([plain, in_outer, in_inner].map(OpName::region), [Region::default(), outer, inner]);
        assert_eq!([plain, in_outer, in_inner].map(OpName::text), [Some("an operation in regions"); 3]);
        assert_eq!(OpName::of("an operation in regions"), in_outer, "the region around it holds again");
        assert_eq!(inner.path().as_deref(), Some("region test/inner"));
        assert_eq!(Region::default().path(), None);
    }
}
