//! Each public operation of tensors and complex numbers has a row, or has no gradient.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{GRIDS, WHOLE};

/// What operations without a gradient to test here give.
const WITHOUT: &[(&str, &str)] = &[
    (
        "a truth value",
        "all all_keepdim any any_keepdim bool eq ge gt isclose isclose_with isfinite isin isinf isnan \
         isneginf isposinf le logical_and logical_not logical_or logical_xor lt ne signbit",
    ),
    (
        "an integer",
        "argmax argmax_keepdim argmin argmin_keepdim argsort bitwise_and bitwise_left_shift \
         bitwise_not bitwise_or bitwise_right_shift bitwise_xor bucketize byte count_nonzero \
         count_nonzero_keepdim gcd histc int lcm long matrix_rank multinomial nonzero nonzero_async \
         nonzero_axes nonzero_axes_async one_hot searchsorted",
    ),
    ("bits", "bitcast nextafter"),
    ("rounded to fewer bits than differences need", "bfloat16 float half"),
    (
        "made of no tensor's values",
        "arange bernoulli empty empty_like eye fftfreq from from_ndarray from_slice \
         from_vec full full_like linspace logspace new_empty new_full new_ones new_zeros normal ones ones_like rand \
         rand_like randint randint_like randn randn_like randperm rfftfreq scalar tril_indices triu_indices \
         uniform zeros zeros_like",
    ),
    (
        "no tensor",
        "check device dim dims dtype is_pinned is_realized item item_async numel plan plan_with \
         ptr_eq rank realize realize_async shape show to_ndarray to_text to_text_with to_vec to_vec_async",
    ),
    ("the tensor itself, elsewhere", "cuda pin_memory"),
    ("hidden", "build from_node node oracle oracle_bounded"),
];

/// Macros of `src/tensor` whose rows become methods: how many names stand first in a row.
const ROW_MACROS: [(&str, usize); 13] = [
    ("adaptive", 3),
    ("bitwise", 1),
    ("both_parts", 1),
    ("casts", 1),
    ("classes", 1),
    ("comparisons", 1),
    ("convolutions", 2),
    ("float_functions", 1),
    ("float_rows", 1),
    ("logic", 1),
    ("pools", 3),
    ("reductions", 2),
    ("transforms", 1),
];

fn is_part(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// The name that a text begins with.
fn first(text: &str) -> &str {
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// The public methods of `Tensor` and `Complex` that a source file declares.
fn methods(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut in_methods, mut rows) = (false, None);
    for line in text.lines() {
        let (trimmed, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        if indent == 0 && !trimmed.is_empty() {
            in_methods = ["impl Tensor {", "impl Complex {"].contains(&trimmed);
        }
        if let Some((at, names)) = rows {
            if trimmed == "}" && indent == at {
                rows = None;
            } else if indent == at + 4 {
                let names = trimmed.split(' ').map(first).take(names).take_while(|name| !name.is_empty());
                found.extend(names.map(String::from));
            }
        } else if let Some(name) = trimmed.strip_suffix("! {") {
            rows = ROW_MACROS.iter().find(|row| row.0 == name).map(|row| (indent, row.1));
        } else if let Some(rest) = trimmed.strip_prefix("pub fn ").filter(|_| in_methods) {
            found.push(first(rest).into());
        }
    }
    found
}

fn declared(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            declared(&path, found);
        } else {
            found.extend(methods(&fs::read_to_string(&path).expect("a readable file")));
        }
    }
}

#[test]
fn every_operation_has_a_row_or_no_gradient() {
    let mut operations = BTreeSet::new();
    declared(Path::new("src/tensor"), &mut operations);
    let rows = GRIDS.iter().chain(WHOLE).copied().flatten();
    let tested: BTreeSet<String> = rows.map(|row| first(row.0).into()).collect();
    let without: BTreeSet<String> =
        WITHOUT.iter().flat_map(|(_, names)| names.split_whitespace()).map(String::from).collect();
    let neither: Vec<_> =
        operations.iter().filter(|name| !tested.contains(*name) && !without.contains(*name)).collect();
    assert!(neither.is_empty(), "without a row in tests/operations/slopes: {neither:?}");
    let stale: Vec<_> =
        without.iter().filter(|name| tested.contains(*name) || !operations.contains(*name)).collect();
    assert!(stale.is_empty(), "listed as without a gradient: {stale:?}");
}

#[test]
fn methods_are_found_in_blocks_and_rows() {
    let text = "impl Tensor {\n    pub fn add(&self) {}\n    fn own() {}\n    pools! {\n        a b c 1;\n    }\n}\n";
    assert_eq!(methods(text), ["add", "a", "b", "c"]);
    let rows = "reductions! {\n    /// Sums.\n    sum sum_keepdim |x| {\n        x\n    };\n}\nimpl Term {\n    pub fn no() {}\n}\n";
    assert_eq!(methods(rows), ["sum", "sum_keepdim"]);
}
