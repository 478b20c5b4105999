//! Compiled programs by their work, and which of them differ in more than
//! numbers.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::Device;
use crate::kernel::Workload;
use crate::plan::build::work_text;
use crate::runtime::Program;

/// Programs kept before all are forgotten; plans keep theirs.
const MAX_PROGRAMS: usize = 16_384;

/// The programs of a context.
#[derive(Debug, Default)]
pub struct Programs {
    known: HashMap<(Device, Arc<Workload>), Arc<dyn Program>>,
    /// Texts without their sizes, of devices that interpret kernels.
    families: HashSet<(Device, u64)>,
}

impl Programs {
    /// The program of a work.
    pub fn get(&self, key: &(Device, Arc<Workload>)) -> Option<Arc<dyn Program>> {
        self.known.get(key).cloned()
    }

    /// Keeps a program; the first of two that two threads compiled wins. Gives
    /// how many kernels were compiled for it: on a device that interprets
    /// kernels, one unless it differs from another in numbers only.
    pub fn keep(
        &mut self,
        key: (Device, Arc<Workload>),
        program: Arc<dyn Program>,
    ) -> (Arc<dyn Program>, u64) {
        if self.known.len() >= MAX_PROGRAMS {
            self.known.clear();
        }
        let (device, work) = &key;
        let new = || u64::from(self.families.insert((*device, family(&work_text(work)))));
        let compiled = program.compiled().unwrap_or_else(new);
        (self.known.entry(key).or_insert(program).clone(), compiled)
    }
}

/// A hash of a text without the numbers that sizes may be: decimal ones that
/// stand by themselves, 0 and 1 excepted, which say what is there at all.
fn family(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // The number of an expression is a name.
        let start = first.len_utf8();
        let end = match word(first) || first == '%' {
            true => rest[start..].find(|c| !word(c)).map_or(rest.len(), |at| start + at),
            false => start,
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        let size = !matches!(token, "0" | "1") && token.bytes().all(|byte| byte.is_ascii_digit());
        if size { "#" } else { token }.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_sizes_are_of_one_family() {
        let text = |extent: &str, number: &str, bits: &str| {
            format!("i0: {extent} level 1\n  %1 = const {bits} : f32 @0\n  %2 = add %0, %{number} : f32 @1\n")
        };
        let one = family(&text("512", "1", "0x40000000"));
        assert_eq!(one, family(&text("7", "1", "0x40000000")));
        for other in [
            text("1", "1", "0x40000000"),
            text("0", "1", "0x40000000"),
            text("512", "0", "0x40000000"),
            text("512", "1", "0x40000001"),
        ] {
            assert_ne!(one, family(&other), "{other}");
        }
    }
}
