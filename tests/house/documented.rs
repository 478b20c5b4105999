//! Every public operation of `Tensor` shows its use in an example.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::rust_files;

/// Operations without an example, by file of `src/tensor`; this list only shrinks.
const WITHOUT: &[(&str, &[&str])] = &[
    // The setters of options: one template, shown by the example of each structure.
    ("options.rs", &["$field"]),
];

/// Macros whose rows become methods: in a row, documentation stands before the name.
const ROW_MACROS: &[&str] =
    &["reductions", "bitwise", "comparisons", "logic", "classes", "casts", "float_rows", "float_functions"];

/// Where a line stands.
enum Block {
    Outside,
    /// In `impl Tensor`, or in the body of a macro that writes methods into one.
    Methods,
    /// In the rows given to a macro.
    Rows,
}

/// The block that an unindented line opens.
fn opened(line: &str) -> Block {
    match line.split_once("! {") {
        _ if line == "impl Tensor {" || line.starts_with("macro_rules! ") => Block::Methods,
        Some((name, "")) if ROW_MACROS.contains(&name) => Block::Rows,
        _ => Block::Outside,
    }
}

/// The method that a line declares; `$name` in a macro.
fn declared<'a>(block: &Block, line: &'a str) -> Option<&'a str> {
    let rest = match block {
        Block::Outside => return None,
        Block::Methods => line.trim_start().strip_prefix("pub fn ")?,
        Block::Rows => line.strip_prefix("    ")?,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// Methods whose documentation has no example.
fn without_example(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut block, mut shown) = (Block::Outside, false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        if !line.starts_with([' ', '}']) && line.ends_with('{') {
            block = opened(line);
        } else if line.starts_with('}') {
            block = Block::Outside;
        }
        if let Some(name) = declared(&block, line) {
            if !shown {
                found.push(name.to_string());
            }
            shown = false;
        } else if trimmed.starts_with("/// ```") || trimmed.starts_with("#[doc(hidden)]") {
            shown = true;
        } else if trimmed.starts_with("$(#[doc = $doc])+") {
            shown = true; // the rows have it
        } else if !trimmed.starts_with(['#', '/']) {
            shown = false;
        }
    }
    found
}

#[test]
fn every_operation_has_an_example() {
    let mut files = Vec::new();
    rust_files(Path::new("src/tensor"), &mut files);
    let mut found = BTreeMap::new();
    for path in files {
        let names = without_example(&fs::read_to_string(&path).expect("a readable file"));
        if !names.is_empty() {
            let name = path.strip_prefix("src/tensor").expect("a file of it").to_string_lossy();
            found.insert(name.replace('\\', "/"), names);
        }
    }
    let listed: BTreeMap<String, Vec<String>> = WITHOUT
        .iter()
        .map(|(file, names)| (file.to_string(), names.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(found, listed, "without an example, and as listed in tests/house/documented.rs");
}

#[test]
fn a_missing_example_is_seen() {
    let method = "impl Tensor {\n    /// Adds.\n    pub fn add(&self) {}\n}\n";
    assert_eq!(without_example(method), ["add"]);
    let shown =
        "impl Tensor {\n    /// Adds.\n    /// ```\n    #[track_caller]\n    pub fn add(&self) {}\n}\n";
    assert!(without_example(shown).is_empty());
    let rows = "casts! {\n    /// As `F32`.\n    float F32;\n    /// ```\n    long I64;\n}\n";
    assert_eq!(without_example(rows), ["float"]);
}
