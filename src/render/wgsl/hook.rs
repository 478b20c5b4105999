//! Functions of a template's header, in WGSL.

use crate::kernel::ExprId;
pub use crate::render::c_like::hook::{Hook, HookAxis, HookContext, Vec4Accesses, template};

/// The function that gives four by four elements ([`Hook::block`]), the first
/// side's as an array, the second's as vectors.
pub fn operand(
    hook: &Hook<'_>,
    signature: &str,
    value: ExprId,
    whole: Option<(u8, usize)>,
    context: &HookContext<'_>,
    element: &dyn Fn(&str, usize, usize) -> String,
) -> String {
    let block = hook.block(value, whole, context, "Element()", element);
    let vector = |row: &[String; 4]| format!("        vec4<Element>({}),\n", row.join(", "));
    let vectors: String = block.elements.iter().map(vector).collect();
    let ty = "array<vec4<Element>, 4>";
    format!("fn {signature} -> {ty} {{\n{}    return {ty}(\n{vectors}    );\n}}\n", block.lines)
}

/// The function that gives four neighbours along the first side as an array
/// ([`Hook::line`]).
pub fn neighbours_of(hook: &Hook<'_>, signature: &str, value: ExprId, context: &HookContext<'_>) -> String {
    let (lines, elements) = hook.line(value, context);
    let ty = "array<Element, 4>";
    format!("fn {signature} -> {ty} {{\n{lines}    return {ty}({});\n}}\n", elements.join(", "))
}

/// The function that stores what becomes of four neighbours, perhaps in a row
/// ([`Hook::after`]).
pub fn result(
    hook: &Hook<'_>,
    signature: &str,
    rows: Option<HookAxis<'_>>,
    context: &HookContext<'_>,
    result: &dyn Fn(String) -> String,
) -> String {
    format!("fn {signature} {{\n{}}}\n", hook.after(rows, context, result))
}
