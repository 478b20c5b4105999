//! Attention by templates: `shaders/attention_*.wgsl` compute it, and a
//! generated header in front of them says of what.
//!
//! The header holds the extents, the block's sizes and five functions: what
//! four queries, keys and values are, what becomes of scores where there is a
//! mask, and of four columns of a row of the result ([`hook`]).

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{AttentionPart, ExprId, FusedAttention, Kernel};
use crate::render::attention::{AttentionExtents, WgslAttentionTile};
use crate::render::c_like::Dialect;
use crate::render::shader::{Pass, Unsupported, uniform_words};
use crate::render::wgsl::dialect::Wgsl;
use crate::render::wgsl::hook::{self, Hook, HookAxis, HookContext};
use crate::render::wgsl::kernel::KernelShader;
use crate::render::wgsl::{Main, ModuleParts, module};

/// A template's file.
fn template(block: &WgslAttentionTile) -> &'static str {
    match block {
        WgslAttentionTile::Subgroup { .. } => include_str!("../../../shaders/attention_subgroup.wgsl"),
        WgslAttentionTile::Workgroup { .. } => include_str!("../../../shaders/attention_workgroup.wgsl"),
        WgslAttentionTile::Query { .. } => include_str!("../../../shaders/attention_query.wgsl"),
    }
}

/// The lane groups.
const ROWS: u8 = 0;
const COLUMNS: u8 = 1;
const DEPTHS: u8 = 2;
/// A group that keys take where no columns, and no rows, take it.
const KEYS_OF_K: u8 = 0;
const KEYS_OF_V: u8 = 2;
const KEYS_OF_MASK: u8 = 1;

/// An attention as a template's pass.
///
/// # Errors
/// More elements than 32-bit addresses reach, more iterations than the driver
/// carries out, or a device without a template.
pub fn render(shader: &KernelShader<'_>, a: &FusedAttention) -> Result<Pass, Unsupported> {
    let (kernel, target) = (&shader.part.kernel, shader.target);
    let extents = AttentionExtents::of(kernel, a);
    let block = WgslAttentionTile::of(&extents, target).filter(|_| a.part == AttentionPart::Result);
    let (Some(block), Some(v)) = (block, a.v) else { return Err(Unsupported::Template("attention")) };
    let iterations = block.iterations(&extents);
    if iterations > target.max_iterations {
        return Err(Unsupported::Iterations { found: iterations, limit: target.max_iterations });
    }
    let dialect = Wgsl::new(shader.inputs, shader.target);
    let (functions, vec4_accesses) = functions(shader, a, v, &extents, &block, &dialect);
    let bindings = shader.bind(&vec4_accesses)?;
    let source = module(&ModuleParts {
        title: &kernel.name,
        adapter: shader.target.adapter,
        inputs: shader.inputs,
        arguments: kernel.args,
        bindings: &bindings,
        sizes_in_words: false,
        declarations: header(&dialect, a, &extents, &block) + &functions,
        main: Main::Template(hook::template(template(&block))),
    });
    Ok(Pass {
        uniform_words: uniform_words(shader.inputs, kernel.args),
        vec4_inputs: shader.marked_inputs(&vec4_accesses.0),
        ..Pass::new(source, block.groups(&extents), block.workgroup(), bindings.slots)
    })
}

/// The functions that read operands and write results.
fn functions(
    shader: &KernelShader<'_>,
    a: &FusedAttention,
    v: ExprId,
    extents: &AttentionExtents,
    block: &WgslAttentionTile,
    dialect: &Wgsl,
) -> (String, hook::Vec4Accesses) {
    let (kernel, target): (&Kernel, _) = (&shader.part.kernel, shader.target);
    let side = |parameter, axes, group, extent| HookAxis { parameter, axes, group, extent };
    let rows = side("row", &a.rows, ROWS, extents.rows);
    let columns = side("column", &a.columns, COLUMNS, extents.columns);
    let depths = side("depth", &a.depth, DEPTHS, extents.depth);
    let keys = |group| side("key", &a.keys, group, extents.keys);
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let mut hooks = vec![
        Hook::new(kernel, &[a.q], [depths, rows], target),
        Hook::new(kernel, &[a.k], [keys(KEYS_OF_K), depths], target),
        Hook::new(kernel, &[v], [columns, keys(KEYS_OF_V)], target),
    ];
    hooks.extend(a.mask.map(|mask| Hook::new(kernel, &[mask], [keys(KEYS_OF_MASK), rows], target)));
    hooks.push(Hook::new(kernel, &values, [columns, columns], target));
    let vec4_accesses = Hook::vec4_accesses(&hooks.iter().collect::<Vec<_>>());
    let context = HookContext { dialect, batch: &a.batch, vec4_accesses: &vec4_accesses };
    let plain = |value: &str, _: usize, _: usize| value.to_string();
    let step = Some((DEPTHS, block.depth_step()));
    let mut text = [
        hook::operand(&hooks[0], "load_q(batch: i32, depth: i32, row: i32)", a.q, step, &context, &plain),
        hook::operand(&hooks[1], "load_k(batch: i32, key: i32, depth: i32)", a.k, step, &context, &plain),
        hook::operand(
            &hooks[2],
            "load_v(batch: i32, column: i32, key: i32)",
            v,
            Some((KEYS_OF_V, block.keys())),
            &context,
            &plain,
        ),
    ]
    .concat();
    let signature = "masked(batch: i32, key: i32, row: i32, x: array<vec4<Element>, 4>)";
    text += &match a.mask {
        Some(mask) => {
            let hides = kernel.exprs[mask.index()].dtype == DType::Bool;
            let score = |value: &str, i: usize, j: usize| match hides {
                true => format!("select(minus_infinity().x, x[{i}][{j}], {value})"),
                false => format!("x[{i}][{j}] + {value}"),
            };
            hook::operand(&hooks[3], signature, mask, None, &context, &score)
        }
        None => format!("fn {signature} -> array<vec4<Element>, 4> {{\n    return x;\n}}\n"),
    };
    let signature = "store_o(batch: i32, row: i32, column: i32, x: vec4<Element>)";
    text += &hook::result(&hooks[hooks.len() - 1], signature, Some(rows), &context, &|value| value);
    (text, vec4_accesses)
}

/// The constants that the template is written in.
fn header(
    dialect: &Wgsl,
    a: &FusedAttention,
    extents: &AttentionExtents,
    block: &WgslAttentionTile,
) -> String {
    let mut text = "alias Element = f32;\n".to_string();
    let mut constant = |name: &str, value: usize| {
        let _ = writeln!(text, "const {name} = {value};");
    };
    constant("BATCHES", extents.batch);
    constant("ROWS", extents.rows);
    constant("KEYS", extents.keys);
    constant("DEPTH", extents.depth);
    constant("COLUMNS", extents.columns);
    match *block {
        WgslAttentionTile::Subgroup { lanes, key_lanes, column_lanes, column_passes } => {
            constant("LANES", lanes);
            constant("KEY_LANES", key_lanes);
            constant("COLUMN_LANES", column_lanes);
            constant("COLUMN_PASSES", column_passes);
        }
        WgslAttentionTile::Workgroup { rows, keys, key_step, column_vec4s } => {
            constant("BLOCK_ROWS", rows);
            constant("BLOCK_KEYS", keys);
            constant("DEPTH_STEP", block.depth_step());
            constant("KEY_STEP", key_step);
            constant("COLUMN_VEC4S", column_vec4s);
        }
        WgslAttentionTile::Query { lanes, teams } => {
            constant("LANES", lanes);
            constant("TEAMS", teams);
        }
    }
    let _ = writeln!(text, "const CAUSAL = {};\nconst MASKED = {};", a.causal, a.mask.is_some());
    let number = |x: f32| dialect.constant(DType::F32, u64::from(x.to_bits()));
    let scale = number(f64::from_bits(a.scale) as f32);
    let _ = writeln!(text, "fn scale() -> Element {{\n    return {scale};\n}}");
    for (name, x) in [("zero", 0.0), ("minus_infinity", f32::NEG_INFINITY)] {
        let x = number(x);
        let _ = writeln!(text, "fn {name}() -> vec4<Element> {{\n    return vec4<Element>({x});\n}}");
    }
    text
}
