//! What a file of the hub is called.

/// What [`HubName::new`] takes.
pub const EXPECTED: &str = "a model, a revision and a file inside the cache";

/// A file of a model in one of its revisions. None of the three leads out of a folder.
#[derive(Clone, Copy, Debug)]
pub struct HubName<'a> {
    pub model: &'a str,
    /// A branch, a tag or a commit.
    pub revision: &'a str,
    pub file: &'a str,
}

impl<'a> HubName<'a> {
    /// The name, unless a part of it leads elsewhere.
    pub fn new(model: &'a str, revision: &'a str, file: &'a str) -> Option<HubName<'a>> {
        let all = [model, revision, file].into_iter().all(stays_inside);
        all.then_some(HubName { model, revision, file })
    }
}

/// Whether a path is relative and goes down only.
pub fn stays_inside(name: &str) -> bool {
    !name.contains('\0') && name.split(['/', '\\']).all(|part| !matches!(part, "" | "." | ".."))
}
