//! Scans by a template: `kernels/scan.cuh` runs along the rows, and a generated header
//! in front of it says what it meets there: the number of rows, what a state is and how
//! states take elements and each other in, what four neighbours are, and what becomes
//! of four results ([`crate::render::c_like::hook`]).

use std::fmt::Write;

use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::render::c_like::hook::{Hook, HookAxis, HookContext, template};
use crate::render::c_like::reduction_state::MonoidEmitter;
use crate::render::cuda::dialect::Cuda;
use crate::render::cuda::kernel::{is_wide, of_launch};
use crate::render::cuda::{Parameters, function, method, pass};
use crate::render::scan::WorkgroupScan;
use crate::render::shader::{Pass, Unsupported};
use crate::render::split::BoundKernel;
use crate::render::target::GpuTarget;

const TEMPLATE: &str = include_str!("../../../kernels/scan.cuh");

/// How a kernel scans by the template, if it is for it: in whole warps.
pub(super) fn shared(kernel: &Kernel, target: &GpuTarget) -> Option<WorkgroupScan> {
    WorkgroupScan::of(kernel, target).filter(|shared| shared.threads.is_multiple_of(super::kernel::WARP))
}

/// A scan as a pass.
///
/// # Errors
/// More elements than positions reach.
pub(super) fn render(
    part: &BoundKernel,
    shared: &WorkgroupScan,
    target: &GpuTarget,
) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let Expr::Scan(monoid, x, _) = *kernel.expr(shared.scan) else { panic!("%{} is no scan", shared.scan.0) };
    let [points, rows] = [0, 1].map(|level| kernel.level_axes(level).collect::<Vec<AxisId>>());
    let side = HookAxis { parameter: "row", axes: &rows, group: 0, extent: kernel.level_points(1) };
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let before = Hook::new(kernel, &[x], [side, side], target);
    let after = Hook::new(&shared.with_result(kernel), &values, [side, side], target);
    let vec4_accesses = Hook::vec4_accesses(&[&before, &after]);
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let context = HookContext { dialect: &dialect, batch: &points, vec4_accesses: &vec4_accesses };
    let monoid = MonoidEmitter { dialect: &dialect, monoid, dtype: kernel.exprs[x.index()].dtype };
    let parameters = Parameters::of(part, kernel.reports());

    let mut text = header(kernel, shared, &monoid);
    text += "struct Scan {\n";
    text += &parameters.fields(kernel.args);
    let (mut body, elements) = before.line(x, &context);
    elements.iter().enumerate().for_each(|(i, element)| _ = writeln!(body, "    x[{i}] = {element};"));
    text += &method("void", "load_x", "Place batch, Place row, Element (&x)[4]", &body);
    let body = after.after(None, &context, &|value| value);
    text += &method("void", "store_y", "Place batch, Place row, const Result (&x)[4]", &body);
    text += "};\n";
    text += template(TEMPLATE);
    let body = format!("    scan(Scan{{{}}});\n", parameters.names(kernel.args).join(", "));
    let threads = shared.threads as u32;
    text += &function(&kernel.name, &parameters, kernel.args, threads, &body);
    let mut pass = pass(text, parameters, threads, kernel.level_points(0) as u64);
    pass.vec4_inputs = of_launch(part, &vec4_accesses.0);
    Ok(pass)
}

/// Sizes, types, and the functions of states.
fn header(kernel: &Kernel, shared: &WorkgroupScan, monoid: &MonoidEmitter<'_>) -> String {
    let dialect = monoid.dialect;
    let to = kernel.exprs[shared.scan.index()].dtype;
    let state = monoid.state_struct(to);
    let mut text = format!(
        "typedef {} Element;\ntypedef {} Result;\ntypedef {} Place;\n\
         constexpr i32 THREADS = {};\nconstexpr Place ROWS = {};\nstruct State {{\n",
        dialect.register(monoid.dtype),
        dialect.register(to),
        dialect.position_type(),
        shared.threads,
        kernel.level_points(1),
    );
    for (field, ty) in &state.fields {
        let _ = writeln!(text, "    {ty} {field};");
    }
    text += "};\n";
    let mut give = |head: &str, lines: &str, value: &str| {
        let _ = write!(text, "KILN_FUNCTION {head} {{\n{lines}    return {value};\n}}\n");
    };
    give("State nothing()", "", &format!("{{{}}}", state.nothing));
    give("State with_element(State own, Element x)", &state.with_element, "own");
    give("State merged(State own, State after)", &state.merged, "own");
    give("Result result(State own)", "", &state.result);
    let exchanged: Vec<String> =
        state.own.iter().map(|one| format!("__shfl_sync(~0u, {one}, lane)")).collect();
    give("State of_lane(State own, u32 lane)", "", &format!("{{{}}}", exchanged.join(", ")));
    text
}
