//! The index of a state in several files: which file holds what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use serde_json::json;

use crate::base::StateProblem;
use crate::base::file::expect_file;
use crate::io::door::{problem, wrong_kind};
use crate::io::json::Json;
use crate::io::magic;

/// The names in each file, by file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardIndex {
    /// Bytes of all tensors; not read, since other libraries need not say.
    pub bytes: usize,
    pub files: BTreeMap<String, BTreeSet<String>>,
}

impl ShardIndex {
    /// Reads an index.
    ///
    /// # Errors
    /// Those of the file system, and what is wrong with it.
    pub fn read(path: &Path) -> Result<ShardIndex, Box<StateProblem>> {
        let unknown = |error: String| Box::new(problem(path, error));
        let text = expect_file(path).and_then(|()| std::fs::read(path));
        let text = text.map_err(|error| unknown(error.to_string()))?;
        let other = || if text.starts_with(b"{") { None } else { wrong_kind(path, magic::JSON, &text) };
        let wrong = |error| other().map_or_else(|| unknown(error), Box::new);
        ShardIndex::parse(&text).map_err(wrong)
    }

    fn parse(text: &[u8]) -> Result<ShardIndex, String> {
        let json = Json::parse(text)?;
        let places = json.get("weight_map").and_then(Json::map);
        let mut index = ShardIndex::default();
        for (name, file) in places.ok_or("expected an object under \"weight_map\"")? {
            let file = file.text().ok_or_else(|| format!("{name}: expected the name of a file"))?;
            let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside || file.is_empty() {
                return Err(format!("{name}: expected a file beside the index, found {file:?}"));
            }
            index.files.entry(file.into()).or_default().insert(name.clone());
        }
        Ok(index)
    }

    /// The index as text.
    pub fn to_text(&self) -> String {
        let places = self.files.iter().flat_map(|(file, names)| names.iter().map(move |name| (name, file)));
        let places: BTreeMap<&String, &String> = places.collect();
        format!("{:#}\n", json!({ "metadata": { "total_size": self.bytes }, "weight_map": places }))
    }
}
