//! Named regions of the user's program, nested, by number: an operation's name keeps the one it was called in.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::op_name;
use crate::base::scope::{Scope, Scopes};

/// A region, or none. Its path names it and those around it, and at the end perhaps a module of a model by its own
/// path: `epoch/forward/encoder.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(u16);

/// The paths of all regions; number 0 is none.
struct Regions {
    paths: Vec<RegionPath>,
    numbers: Option<HashMap<RegionPath, u16>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct RegionPath {
    text: Arc<str>,
    /// Where the path of a module begins, or the end.
    module: usize,
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
        let outer = self.region_path();
        let text = joined(&outer.text, SEPARATOR, name);
        self.numbered(RegionPath { module: text.len(), text: text.into() })
    }

    /// The region of a module by its path in the model, instead of the module that this one is in.
    #[must_use]
    pub fn in_module(self, path: &str) -> Region {
        let outer = self.region_path();
        let text = joined(&outer.text[..outer.module], SEPARATOR, path);
        self.numbered(RegionPath { module: text.len() - path.len(), text: text.into() })
    }

    /// The region of a part of the module that this one is in.
    #[must_use]
    pub fn in_child(self, name: &str) -> Region {
        let outer = self.region_path();
        let module = &outer.text[outer.module..];
        self.in_module(&joined(module, '.', name))
    }

    /// The region of a path; this one where numbers have run out.
    fn numbered(self, path: RegionPath) -> Region {
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
        Some(self.region_path().text).filter(|text| !text.is_empty())
    }

    fn region_path(self) -> RegionPath {
        let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let path = usize::from(self.0).checked_sub(1).and_then(|number| regions.paths.get(number));
        path.cloned().unwrap_or_default()
    }
}

fn joined(outer: &str, separator: char, name: &str) -> String {
    let outer = outer.trim_end_matches(separator);
    if outer.is_empty() { name.into() } else { format!("{outer}{separator}{name}") }
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
    fn a_module_takes_the_place_of_the_one_around_it() {
        let label = Region::default().inside("forward");
        let child = label.in_child("0").in_child("1");
        assert_eq!(child.path().as_deref(), Some("forward/0.1"));
        let module = child.in_module("encoder.0.1");
        assert_eq!(module.path().as_deref(), Some("forward/encoder.0.1"));
        assert_eq!(module.in_module("encoder.0.1"), module);
        assert_eq!(module.inside("scores").path().as_deref(), Some("forward/encoder.0.1/scores"));
        assert_eq!(
            module.inside("scores").in_module("head").path().as_deref(),
            Some("forward/encoder.0.1/scores/head")
        );
        assert_eq!(Region::default().in_child("0").in_module("net").path().as_deref(), Some("net"));
    }

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
