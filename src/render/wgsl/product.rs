//! Contractions by templates: `shaders/product_*.wgsl` multiply, and a
//! generated header in front of them says what.
//!
//! The header holds the extents, the tile's sizes, a zero and three functions: what
//! four rows of the first operand are at four depths, what four columns of the
//! second are, and what becomes of four columns of a row of the sum. They are
//! emitted from the kernel's expressions, so operands may be any loads and
//! arithmetic (a convolution's window, a mask, a cast), and the rest of a
//! fused kernel follows the sum.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{AxisId, Contraction, Expr, ExprId, Kernel};
use crate::render::c_like::emit::Lane;
use crate::render::c_like::writer::Writer;
use crate::render::c_like::{Dialect, Emitter, Lanes};
use crate::render::coalesce::coalesce;
use crate::render::product::{Extents, Tile};
use crate::render::shader::{Pass, Unsupported, block_words};
use crate::render::target::Target;
use crate::render::tile::{by_four, give_lanes};
use crate::render::wgsl::dialect::Wgsl;
use crate::render::wgsl::kernel::{PartShader, wide};
use crate::render::wgsl::{Main, Parts, module};

/// The line that parts a template from the example before it.
const MARK: &str = "// TEMPLATE\n";

/// A template's text after the example header.
fn template(tile: &Tile) -> &'static str {
    let text = match tile {
        Tile::Subgroup { .. } => include_str!("../../../shaders/product_subgroup.wgsl"),
        Tile::Workgroup { .. } => include_str!("../../../shaders/product_workgroup.wgsl"),
    };
    text.split_once(MARK).map_or_else(|| panic!("a template without its mark"), |(_, own)| own)
}

/// The lane groups: rows, columns, depths.
const ROWS: u8 = 0;
const COLUMNS: u8 = 1;
const DEPTHS: u8 = 2;

/// A direction of the product: its axes, and a function's parameter along it.
#[derive(Clone, Copy)]
struct Side<'a> {
    parameter: &'static str,
    axes: &'a [AxisId],
    group: u8,
    extent: usize,
}

/// A contraction as a template's pass.
///
/// # Errors
/// More elements than 32-bit addresses reach.
pub fn render(shader: &PartShader<'_>, c: &Contraction, tile: &Tile) -> Result<Pass, Unsupported> {
    let (kernel, target) = (&shader.part.kernel, shader.target);
    let extents = Extents::of(kernel, c);
    let side = |parameter, axes, group, extent| Side { parameter, axes, group, extent };
    let rows = side("row", &c.m, ROWS, extents.m);
    let columns = side("column", &c.n, COLUMNS, extents.n);
    let depths = side("depth", &c.k, DEPTHS, extents.k);
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let hooks = [
        Hook::new(kernel, &[c.a], [rows, depths], target),
        Hook::new(kernel, &[c.b], [depths, columns], target),
        Hook::new(kernel, &values, [columns, columns], target),
    ];
    // One function reads an input, for all hooks.
    let inputs = (0..kernel.inputs.len()).map(|slot| hooks.iter().all(|hook| hook.by_four.0[slot]));
    let fours: (Vec<bool>, Vec<bool>) = (inputs.collect(), hooks[2].by_four.1.clone());
    let dialect = Wgsl { inputs: shader.inputs };
    let step = tile.step(target);
    let declarations = [
        header(&dialect, c.dtype, &extents, tile, target),
        hooks[0].operand("load_a(batch: i32, row: i32, depth: i32)", c, c.a, &dialect, &fours, step),
        hooks[1].operand("load_b(batch: i32, depth: i32, column: i32)", c, c.b, &dialect, &fours, step),
        hooks[2].result(c, rows, &dialect, &fours),
    ]
    .concat();
    let bindings = shader.bind(&fours)?;
    let source = module(&Parts {
        title: &kernel.name,
        inputs: shader.inputs,
        arguments: kernel.args.len(),
        bindings: &bindings.text,
        declarations,
        main: Main::Template(template(tile)),
    });
    Ok(Pass {
        source,
        groups: tile.groups(&extents, target),
        workgroup: tile.workgroup(target),
        chunk: 0,
        chunks_end: 0,
        slots: bindings.slots,
        words: block_words(shader.inputs, kernel.args.len()),
        fours: shader.fours(&fours.0),
    })
}

/// The constants that a template is written in.
fn header(dialect: &Wgsl, dtype: DType, extents: &Extents, tile: &Tile, target: &Target) -> String {
    let mut text = format!("alias Element = {};\n", dialect.register(dtype));
    let mut constant = |name: &str, value: usize| {
        let _ = writeln!(text, "const {name} = {value};");
    };
    let Extents { batch, m, n, k } = *extents;
    [("BATCHES", batch), ("M", m), ("N", n), ("K", k)].into_iter().for_each(|(x, y)| constant(x, y));
    match *tile {
        Tile::Subgroup { rows, fours } => {
            constant("LANES", target.subgroup as usize);
            constant("ROWS", rows);
            constant("FOURS", fours);
        }
        Tile::Workgroup { rows, columns, step, row_fours, column_fours } => {
            constant("ROWS", rows);
            constant("COLUMNS", columns);
            constant("STEP", step);
            constant("ROW_FOURS", row_fours);
            constant("COLUMN_FOURS", column_fours);
        }
    }
    let zero = dialect.constant(dtype, 0);
    let _ = writeln!(text, "fn zero() -> vec4<Element> {{\n    return vec4<Element>({zero});\n}}");
    text
}

/// A function of a template's header: the part of the kernel that it
/// computes, four positions at a time in two directions.
struct Hook<'a> {
    kernel: Kernel,
    lanes: Lanes,
    by_four: (Vec<bool>, Vec<bool>),
    sides: [Side<'a>; 2],
}

impl<'a> Hook<'a> {
    fn new(kernel: &Kernel, roots: &[ExprId], sides: [Side<'a>; 2], target: &Target) -> Hook<'a> {
        let kernel = coalesce(&part(kernel, roots));
        let mut lanes = Lanes::single(&kernel);
        for side in sides {
            let axes = wide(&kernel, side.axes.iter().copied());
            lanes.count[side.group as usize] = 4;
            match axes.last() {
                Some(&last) if in_fours(&kernel, &axes) => give_lanes(&mut lanes, side.group, last, 4),
                _ => axes.iter().for_each(|axis| lanes.group[axis.index()] = Some(side.group)),
            }
        }
        let by_four = by_four(&kernel, &lanes, target);
        Hook { kernel, lanes, by_four, sides }
    }

    fn emitter<'k>(
        &'k self,
        dialect: &'k Wgsl,
        fours: &(Vec<bool>, Vec<bool>),
        c: &Contraction,
    ) -> Emitter<'k> {
        let mut emitter = Emitter::new(dialect, &self.kernel, self.lanes.clone());
        emitter.by_four = fours.clone();
        emitter.out = Writer::inside(1);
        emitter.positions("batch", &wide(&self.kernel, c.batch.iter().copied()), 1);
        emitter
    }

    /// Defines the positions of four neighbours along a side; those beyond its
    /// end are its last ones again.
    fn neighbours(&self, emitter: &mut Emitter<'_>, side: &Side<'_>) {
        let axes = wide(&self.kernel, side.axes.iter().copied());
        let (name, extent) = (side.parameter, side.extent);
        if in_fours(&self.kernel, &axes) {
            emitter.out.line(format!("let {name}_first = min({name}, {});", extent - 4));
            return emitter.positions(&format!("{name}_first"), &axes, 4);
        }
        for number in 0..4 {
            let mut lane = Lane::default();
            lane[side.group as usize] = number;
            let own = format!("{name}_{number}");
            emitter.out.line(format!("let {own} = min({name} + {number}, {});", extent - 1));
            for (&axis, value) in axes.iter().zip(emitter.coordinates(&own, &axes)) {
                emitter.out.line(format!("let {} = {value};", emitter.axis(axis, lane)));
            }
        }
    }

    /// The function that gives four by four elements of an operand, the first
    /// side's as an array, the second's as vectors.
    fn operand(
        &self,
        signature: &str,
        c: &Contraction,
        value: ExprId,
        dialect: &Wgsl,
        fours: &(Vec<bool>, Vec<bool>),
        step: usize,
    ) -> String {
        let mut emitter = self.emitter(dialect, fours, c);
        self.sides.iter().for_each(|side| self.neighbours(&mut emitter, side));
        emitter.define_all(&[value]);
        let [outer, inner] = self.sides;
        let ragged = self.sides.iter().any(|side| side.group == DEPTHS && !side.extent.is_multiple_of(step));
        if ragged {
            for number in 0..4 {
                let extent = if outer.group == DEPTHS { outer.extent } else { inner.extent };
                emitter.out.line(format!("let inside_{number} = depth + {number} < {extent};"));
            }
        }
        let element = |i: usize, j: usize| {
            let mut lane = Lane::default();
            (lane[outer.group as usize], lane[inner.group as usize]) = (i, j);
            let name = emitter.name(value, lane);
            let depth = if outer.group == DEPTHS { i } else { j };
            if ragged { format!("select(Element(), {name}, inside_{depth})") } else { name }
        };
        let vector = |i: usize| {
            let elements: Vec<String> = (0..4).map(|j| element(i, j)).collect();
            format!("        vec4<Element>({}),\n", elements.join(", "))
        };
        let vectors: String = (0..4).map(vector).collect();
        let ty = "array<vec4<Element>, 4>";
        format!("fn {signature} -> {ty} {{\n{}    return {ty}(\n{vectors}    );\n}}\n", emitter.out.text())
    }

    /// The function that stores what becomes of four columns of a row.
    fn result(
        &self,
        c: &Contraction,
        rows: Side<'_>,
        dialect: &Wgsl,
        fours: &(Vec<bool>, Vec<bool>),
    ) -> String {
        let mut emitter = self.emitter(dialect, fours, c);
        let columns = self.sides[0];
        emitter.positions("row", &wide(&self.kernel, rows.axes.iter().copied()), 1);
        self.neighbours(&mut emitter, &columns);
        let exprs = (0..self.kernel.exprs.len() as u32).map(ExprId);
        for id in exprs.filter(|id| *self.kernel.expr(*id) == Expr::Accumulator) {
            for lane in emitter.all_lanes(emitter.mask(id)) {
                let sum = format!("x[{}]", lane[COLUMNS as usize]);
                let value = if c.dtype == DType::U8 { format!("({sum} & 0xffu)") } else { sum };
                emitter.out.line(format!("let {} = {value};", emitter.name(id, lane)));
            }
            emitter.assume(id);
        }
        let values: Vec<ExprId> = self.kernel.stores.iter().map(|store| store.value).collect();
        emitter.define_all(&values);
        let whole = in_fours(&self.kernel, &wide(&self.kernel, columns.axes.iter().copied()));
        for store in 0..self.kernel.stores.len() {
            emitter.store(store, &|lane: Lane| {
                let number = lane[COLUMNS as usize];
                (!whole && number > 0).then(|| format!("column + {number} < {}", columns.extent))
            });
        }
        let signature = "store_c(batch: i32, row: i32, column: i32, x: vec4<Element>)";
        format!("fn {signature} {{\n{}}}\n", emitter.out.text())
    }
}

/// Whether fours of a side's positions differ along its last axis only.
fn in_fours(kernel: &Kernel, axes: &[AxisId]) -> bool {
    axes.last().is_some_and(|axis| kernel.axes[axis.index()].extent.is_multiple_of(4))
}

/// The kernel with only what some values depend on; the numbers of expressions
/// stay. Stores stay if the values are theirs.
fn part(kernel: &Kernel, roots: &[ExprId]) -> Kernel {
    let mut part = kernel.clone();
    part.stores.retain(|store| roots.contains(&store.value));
    let mut wanted = vec![false; part.exprs.len()];
    roots.iter().for_each(|root| wanted[root.index()] = true);
    for i in (0..wanted.len()).rev() {
        if wanted[i] {
            part.exprs[i].expr.operands(|x| wanted[x.index()] = true);
        } else {
            part.exprs[i].expr = Expr::Const(0);
        }
    }
    part
}
