//! Scans by a template: `shaders/scan.wgsl` runs along the rows, and a generated
//! header in front of it says what it meets there.
//!
//! The header holds the numbers of points and rows, what a state is and how
//! states take elements and each other in, and two hooks: what four neighbours
//! are, and what becomes of four results ([`hook`]).

use std::fmt::Write;

use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::render::c_like::reduction_state::MonoidEmitter;
use crate::render::scan::WorkgroupScan;
use crate::render::shader::{Pass, Unsupported, uniform_words};
use crate::render::wgsl::dialect::Wgsl;
use crate::render::wgsl::hook::{self, Hook, HookAxis, HookContext};
use crate::render::wgsl::kernel::KernelShader;
use crate::render::wgsl::{Main, ModuleParts, module};

const TEMPLATE: &str = include_str!("../../../shaders/scan.wgsl");

/// A scan as a template's pass.
///
/// # Errors
/// More elements than 32-bit addresses reach.
pub fn render(shader: &KernelShader<'_>, shared: &WorkgroupScan) -> Result<Pass, Unsupported> {
    let (kernel, target) = (&shader.part.kernel, shader.target);
    let Expr::Scan(monoid, x, _) = *kernel.expr(shared.scan) else { panic!("%{} is no scan", shared.scan.0) };
    let [points, rows] = [0, 1].map(|level| kernel.level_axes(level).collect::<Vec<AxisId>>());
    let side = HookAxis { parameter: "row", axes: &rows, group: 0, extent: kernel.level_points(1) };
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let hooks = [
        Hook::new(kernel, &[x], [side, side], target),
        Hook::new(&shared.with_result(kernel), &values, [side, side], target),
    ];
    let vec4_accesses = Hook::vec4_accesses(&hooks.iter().collect::<Vec<_>>());
    let dialect = Wgsl::new(shader.inputs, shader.target);
    let context = HookContext { dialect: &dialect, batch: &points, vec4_accesses: &vec4_accesses };
    let monoid = MonoidEmitter { dialect: &dialect, monoid, dtype: kernel.exprs[x.index()].dtype };
    let declarations = [
        header(kernel, shared, &monoid),
        hook::neighbours_of(&hooks[0], "load_x(batch: i32, row: i32)", x, &context),
        hook::result(
            &hooks[1],
            "store_y(batch: i32, row: i32, x: array<Result, 4>)",
            None,
            &context,
            &|value| value,
        ),
    ]
    .concat();
    let bindings = shader.bind(&vec4_accesses)?;
    let source = module(&ModuleParts {
        title: &kernel.name,
        adapter: shader.target.adapter,
        inputs: shader.inputs,
        arguments: kernel.args,
        bindings: &bindings,
        sizes_in_words: false,
        declarations,
        main: Main::Template(hook::template(TEMPLATE)),
    });
    Ok(Pass {
        uniform_words: uniform_words(shader.inputs, kernel.args),
        vec4_inputs: shader.marked_inputs(&vec4_accesses.0),
        ..Pass::new(source, kernel.level_points(0) as u64, shared.threads as u32, bindings.slots)
    })
}

/// Sizes, types, and the functions of states.
fn header(kernel: &Kernel, shared: &WorkgroupScan, monoid: &MonoidEmitter<'_>) -> String {
    let dialect = monoid.dialect;
    let to = kernel.exprs[shared.scan.index()].dtype;
    let state = monoid.state_struct(to);
    let mut text = format!(
        "const THREADS = {};\nalias Element = {};\nalias Result = {};\nstruct State {{\n",
        shared.threads,
        dialect.register(monoid.dtype),
        dialect.register(to)
    );
    for (field, ty) in &state.fields {
        let _ = writeln!(text, "    {field}: {ty},");
    }
    text += "}\n";
    for (name, level) in [("points", 0), ("rows", 1)] {
        let count = dialect.position(kernel.level_points(level) as i64);
        let _ = writeln!(text, "fn {name}() -> i32 {{\n    return {count};\n}}");
    }
    let _ = write!(
        text,
        "fn nothing() -> State {{\n    return State({});\n}}\n\
         fn with_element(before: State, x: Element) -> State {{\n    var own = before;\n{}    return own;\n}}\n\
         fn merged(before: State, after: State) -> State {{\n    var own = before;\n{}    return own;\n}}\n\
         fn result(own: State) -> Result {{\n    return {};\n}}\n",
        state.nothing, state.with_element, state.merged, state.result
    );
    text
}
