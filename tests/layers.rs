//! The layers import downwards only.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the crate, lowest first; those on one line are one layer.
const LAYERS: &[&[&str]] = &[
    &["base"],
    &["ir"],
    &["kernel"],
    &["render"],
    &["runtime"],
    &["schedule"],
    &["plan"],
    &["tensor"],
    &["grad"],
    &["io"],
    &["nn"],
    &["optim"],
    &["data"],
    &["assert", "guide", "opts", "prelude"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The module a file of `src` belongs to: its first folder or its own name.
fn module_of(path: &Path) -> String {
    let first = path.strip_prefix("src").expect("a file of src").components().next().expect("a file name");
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_string()
}

/// Imports of a higher layer, as `file:line: module`.
fn upward_edges(file: &str, module: &str, text: &str) -> Vec<String> {
    let Some(own) = layer(module) else { return Vec::new() };
    let mut edges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Tests may look at the whole crate.
        if line.trim() == "#[cfg(test)]"
            && text.lines().nth(number + 1).is_some_and(|l| l.contains("mod tests {"))
        {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        for after in line.split("crate::").skip(1) {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if layer(&name).is_some_and(|other| other > own) {
                edges.push(format!("{file}:{}: {module} imports {name}", number + 1));
            }
        }
    }
    edges
}

#[test]
fn imports_go_downwards_only() {
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    let mut edges = Vec::new();
    for path in files {
        let name = path.to_string_lossy().to_string();
        if name.ends_with("lib.rs") || name.contains("tests") || name.contains("testing") {
            continue;
        }
        let module = module_of(&path);
        assert!(layer(&module).is_some(), "{name} belongs to no layer; add it to tests/layers.rs");
        edges.extend(upward_edges(&name, &module, &fs::read_to_string(&path).expect("a readable file")));
    }
    assert!(edges.is_empty(), "{}", edges.join("\n"));
}

#[test]
fn an_upward_edge_is_seen() {
    let text = "use crate::base::DType;\nuse crate::plan::Plan;\n";
    assert_eq!(upward_edges("src/ir/x.rs", "ir", text), ["src/ir/x.rs:2: ir imports plan"]);
}
