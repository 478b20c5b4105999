//! Contractions by templates: `shaders/product_*.wgsl` multiply, and a
//! generated header in front of them says what.
//!
//! The header holds the extents, the tile's sizes, a zero and three functions: what
//! four rows of the first operand are at four depths, what four columns of the
//! second are, and what becomes of four columns of a row of the sum
//! ([`hook`]).

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{Contraction, ExprId};
use crate::render::c_like::Dialect;
use crate::render::choice::TemplateChoice;
use crate::render::product::{ProductExtents, WgslProductTile};
use crate::render::shader::{Pass, StoredTile, Unsupported, uniform_words};
use crate::render::target::GpuTarget;
use crate::render::wgsl::dialect::Wgsl;
use crate::render::wgsl::hook::{self, Hook, HookAxis, HookContext};
use crate::render::wgsl::kernel::KernelShader;
use crate::render::wgsl::{Main, ModuleParts, module, sized};

/// A template's file.
fn template(tile: &WgslProductTile) -> &'static str {
    match tile {
        WgslProductTile::Subgroup { .. } => include_str!("../../../shaders/product_subgroup.wgsl"),
        WgslProductTile::Workgroup { .. } => include_str!("../../../shaders/product_workgroup.wgsl"),
        WgslProductTile::Matrix { .. } => include_str!("../../../shaders/product_matrix.wgsl"),
    }
}

/// The lane groups: rows, columns, depths.
const ROWS: u8 = 0;
const COLUMNS: u8 = 1;
const DEPTHS: u8 = 2;

/// A contraction as a template's pass.
///
/// # Errors
/// More elements than 32-bit addresses reach.
pub fn render(
    shader: &KernelShader<'_>,
    c: &Contraction,
    tile: &WgslProductTile,
) -> Result<Pass, Unsupported> {
    let (kernel, target) = (&shader.part.kernel, shader.target);
    let extents = ProductExtents::of(kernel, c);
    let side = |parameter, axes, group, extent| HookAxis { parameter, axes, group, extent };
    let rows = side("row", &c.m, ROWS, extents.m);
    let columns = side("column", &c.n, COLUMNS, extents.n);
    let depths = side("depth", &c.k, DEPTHS, extents.k);
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let hooks = [
        Hook::new(kernel, &[c.a], [rows, depths], target),
        Hook::new(kernel, &[c.b], [depths, columns], target),
        Hook::new(kernel, &values, [columns, columns], target),
    ];
    let vec4_accesses = Hook::vec4_accesses(&hooks.iter().collect::<Vec<_>>());
    let dialect = Wgsl::new(shader.inputs, shader.target);
    let context = HookContext { dialect: &dialect, batch: &c.batch, vec4_accesses: &vec4_accesses };
    let header = header(&dialect, c.dtype, &extents, tile, target);
    let declarations = header + &functions(&hooks, c, rows, tile.step(target), &context);
    let bindings = shader.bind(&vec4_accesses)?;
    let text = template(tile);
    // What a shader enables comes before all else.
    let enabled: String = text.split_inclusive('\n').take_while(|line| line.starts_with("enable ")).collect();
    let source = enabled
        + &module(&ModuleParts {
            title: &kernel.name,
            adapter: shader.target.adapter,
            inputs: shader.inputs,
            arguments: kernel.args,
            bindings: &bindings,
            sizes_in_words: in_words(tile) && !sized::divides(&declarations),
            declarations,
            main: Main::Template(hook::template(text)),
        });
    Ok(Pass {
        uniform_words: uniform_words(shader.inputs, kernel.args),
        vec4_inputs: shader.marked_inputs(&vec4_accesses.0),
        stored_tile: Some(StoredTile::of_product(kernel, c, TemplateChoice::Product(*tile))),
        ..Pass::new(source, tile.groups(&extents, target), tile.workgroup(target), bindings.slots)
    })
}

/// What a template calls: loads of the operands, the store of the result.
fn functions(
    hooks: &[Hook<'_>; 3],
    c: &Contraction,
    rows: HookAxis<'_>,
    step: usize,
    context: &HookContext<'_>,
) -> String {
    // No depth of the last step counts that is beyond the end.
    let whole = Some((DEPTHS, step));
    let plain = |value: &str, _: usize, _: usize| value.to_string();
    let byte = |sum: String| if c.dtype == DType::U8 { format!("({sum} & 0xffu)") } else { sum };
    let store = "store_c(batch: i32, row: i32, column: i32, x: vec4<Element>)";
    [
        hook::operand(&hooks[0], "load_a(batch: i32, row: i32, depth: i32)", c.a, whole, context, &plain),
        hook::operand(&hooks[1], "load_b(batch: i32, depth: i32, column: i32)", c.b, whole, context, &plain),
        hook::result(&hooks[2], store, Some(rows), context, &byte),
    ]
    .concat()
}

/// The constants that a template is written in, and the extents.
fn header(
    dialect: &Wgsl,
    dtype: DType,
    extents: &ProductExtents,
    tile: &WgslProductTile,
    target: &GpuTarget,
) -> String {
    let mut text = format!("alias Element = {};\n", dialect.register(dtype));
    text += &sizes(dialect, extents, tile);
    let mut constant = |name: &str, value: usize| {
        let _ = writeln!(text, "const {name} = {value};");
    };
    match *tile {
        WgslProductTile::Subgroup { rows, vec4s } => {
            constant("LANES", target.subgroup as usize);
            constant("ROWS", rows);
            constant("VEC4S", vec4s);
        }
        WgslProductTile::Workgroup { rows, columns, step, row_vec4s, column_vec4s } => {
            constant("ROWS", rows);
            constant("COLUMNS", columns);
            constant("STEP", step);
            constant("ROW_VEC4S", row_vec4s);
            constant("COLUMN_VEC4S", column_vec4s);
        }
        WgslProductTile::Matrix { side, rows, columns, part_rows, part_columns } => {
            constant("ROWS", rows);
            constant("COLUMNS", columns);
            constant("STEP", tile.step(target));
            constant("PART_ROWS", part_rows);
            constant("PART_COLUMNS", part_columns);
            constant("SIDE", side);
            for (role, element) in [("A", "f16"), ("B", "f16"), ("C", "f32")] {
                let _ = writeln!(text, "alias Matrix{role} = coop_mat{side}x{side}<{element}, {role}>;");
            }
        }
    }
    let zero = dialect.constant(dtype, 0);
    let _ = writeln!(text, "fn zero() -> vec4<Element> {{\n    return vec4<Element>({zero});\n}}");
    text
}

/// Whether a tile's text may read sizes from uniforms: software drivers take a tenth of a
/// second to compile it, and positions that are divided a tenth longer to run if they do.
fn in_words(tile: &WgslProductTile) -> bool {
    match tile {
        WgslProductTile::Subgroup { .. } => true,
        WgslProductTile::Workgroup { .. } | WgslProductTile::Matrix { .. } => false,
    }
}

/// The extents: constants, or functions where one text serves many.
fn sizes(dialect: &Wgsl, extents: &ProductExtents, tile: &WgslProductTile) -> String {
    let ProductExtents { batch, m, n, k } = *extents;
    let each = |name: &str, size: usize| {
        if !in_words(tile) {
            return format!("const {name} = {size};\n");
        }
        let size = dialect.position(size as i64);
        format!("fn {}() -> i32 {{\n    return {size};\n}}\n", name.to_lowercase())
    };
    [("BATCHES", batch), ("M", m), ("N", n), ("K", k)].map(|(name, size)| each(name, size)).concat()
}
