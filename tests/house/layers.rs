//! The layers import downwards only.

use std::fs;
use std::path::Path;

use crate::rust_files;

/// Modules of the crate of vector loops, lowest first. It cannot import anything of kiln.
const SIMD_LAYERS: &[&[&str]] =
    &[&["dtype", "special", "thresholds"], &["scalar"], &["alu"], &["micro"], &["gemm"]];

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
    &["dist"],
    &["profile"],
    &["page"],
    &["train"],
    &["assert", "bench", "guide", "opts", "prelude"],
];

fn layer(layers: &[&[&str]], module: &str) -> Option<usize> {
    layers.iter().position(|layer| layer.contains(&module))
}

/// The module a file of `source` belongs to: its first folder or its own name.
fn module_of(source: &str, path: &Path) -> String {
    let first = path.strip_prefix(source).expect("a file of it").components().next().expect("a file name");
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_string()
}

/// Imports of a higher layer, as `file:line: module`.
fn upward_edges(layers: &[&[&str]], file: &str, module: &str, text: &str) -> Vec<String> {
    let Some(own) = layer(layers, module) else { return Vec::new() };
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
            if layer(layers, &name).is_some_and(|other| other > own) {
                edges.push(format!("{file}:{}: {module} imports {name}", number + 1));
            }
        }
    }
    edges
}

/// Checks every file of a crate's `source`.
fn assert_downwards(source: &str, layers: &[&[&str]]) {
    let mut files = Vec::new();
    rust_files(Path::new(source), &mut files);
    assert!(!files.is_empty(), "no files in {source}");
    let mut edges = Vec::new();
    for path in files {
        let name = path.to_string_lossy().to_string();
        if name.ends_with("lib.rs") || name.contains("tests") || name.contains("testing") {
            continue;
        }
        let module = module_of(source, &path);
        assert!(
            layer(layers, &module).is_some(),
            "{name} belongs to no layer; add it to tests/house/layers.rs"
        );
        edges.extend(upward_edges(
            layers,
            &name,
            &module,
            &fs::read_to_string(&path).expect("a readable file"),
        ));
    }
    assert!(edges.is_empty(), "{}", edges.join("\n"));
}

#[test]
fn imports_go_downwards_only() {
    assert_downwards("src", LAYERS);
    assert_downwards("crates/kiln-simd/src", SIMD_LAYERS);
}

#[test]
fn an_upward_edge_is_seen() {
    let text = "use crate::base::DType;\nuse crate::plan::Plan;\n";
    assert_eq!(upward_edges(LAYERS, "src/ir/x.rs", "ir", text), ["src/ir/x.rs:2: ir imports plan"]);
}
