//! Scatters. Updates of one element are made in their order, so that results repeat
//! bitwise, without a word from one invocation to another: either one invocation makes
//! all that may meet, or warps own the positions along the scattered axis. A warp looks
//! at 32 indices at a time and makes the updates that fall to it one after the other, its
//! lanes side by side where the points differ that one index is for.

use crate::base::DType;
use crate::kernel::{AxisId, Kernel, ScatterStore};
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::{Coarsening, Dialect, Emitter, wide};
use crate::render::cuda::dialect::Cuda;
use crate::render::cuda::kernel::{WARP, emitter, finish, invocation, is_wide, start};
use crate::render::cuda::thresholds::{self, SCATTER_PREFETCH};
use crate::render::shader::{Pass, Unsupported};
use crate::render::split::BoundKernel;
use crate::render::split::rewriter::axes_of;
use crate::render::target::GpuTarget;
use crate::render::thread_mapping::{self, ThreadMapping};

/// The pass of a scatter.
///
/// # Errors
/// What the device lacks.
pub fn render(part: &BoundKernel, scatter: &ScatterStore, target: &GpuTarget) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let mut mapping = thread_mapping::rows(kernel, target)?;
    mapping.coarsening = Coarsening::single(kernel);
    mapping.reduction_threads = 1;
    mapping.vec4 = (vec![false; kernel.inputs.len()], Vec::new());
    mapping.vec8 = mapping.vec4.clone();
    match Shares::new(kernel, scatter, target) {
        Some(shares) => by_warps(part, scatter, &mapping, &shares),
        None => by_invocations(part, scatter, &mapping),
    }
}

/// The axes along which updates may meet, and the others.
fn axes(kernel: &Kernel, scatter: &ScatterStore) -> (Vec<AxisId>, Vec<AxisId>) {
    wide(kernel, kernel.level_axes(0)).into_iter().partition(|axis| scatter.axes.contains(axis))
}

/// One invocation for each point of the axes along which updates do not meet.
fn by_invocations(
    part: &BoundKernel,
    scatter: &ScatterStore,
    mapping: &ThreadMapping,
) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let mut emitter = emitter(&dialect, kernel, mapping);
    let (meeting, apart) = axes(kernel, scatter);
    let points = kernel.points_of(&apart);
    start(&mut emitter, "point", &invocation(&dialect, mapping.workgroup), points);
    emitter.positions("point", &apart, 1);
    for axis in &meeting {
        let extent = kernel.axes[axis.index()].extent.to_string();
        emitter.out.open(dialect.for_loop(&format!("i{}", axis.0), "0", &extent, 1));
    }
    emitter.define_all(&[scatter.index]);
    let index = emitter.name(scatter.index, ElementIndex::default());
    report(&mut emitter, &dialect, scatter, &index, None);
    emitter.out.open("else");
    update(&mut emitter, &dialect, scatter, &index);
    emitter.out.close();
    meeting.iter().for_each(|_| emitter.out.close());
    let groups = (points as u64).div_ceil(u64::from(mapping.workgroup));
    Ok(finish(part, mapping, &emitter, groups))
}

/// What falls to a warp.
struct Shares {
    /// Axes along which updates may meet.
    meeting: Vec<AxisId>,
    /// Other axes that the index depends on: a warp is at one position of each.
    batch: Vec<AxisId>,
    /// Axes that it does not depend on: a warp's lanes are at 32 of their positions.
    columns: Vec<AxisId>,
    /// Warps that share a column's positions along the scattered axis.
    owners: usize,
}

impl Shares {
    /// `None` where invocations are many, or their updates few.
    fn new(kernel: &Kernel, scatter: &ScatterStore, target: &GpuTarget) -> Option<Shares> {
        let processors = target.cuda.map_or(1, |cuda| cuda.multiprocessors);
        let (meeting, apart) = axes(kernel, scatter);
        let busy = kernel.points_of(&apart) >= processors * thresholds::SCATTER_BUSY_THREADS;
        if busy || kernel.points_of(&meeting) < thresholds::MIN_SHARED_UPDATES {
            return None;
        }
        let decides = axes_of(kernel, scatter.index);
        let (batch, columns): (Vec<AxisId>, Vec<AxisId>) =
            apart.into_iter().partition(|axis| decides.contains(axis));
        let warps = kernel.points_of(&batch) * kernel.points_of(&columns).div_ceil(WARP);
        let owners = (processors * thresholds::SCATTER_WARPS / warps.max(1)).clamp(1, scatter.extent.max(1));
        Some(Shares { meeting, batch, columns, owners })
    }
}

fn by_warps(
    part: &BoundKernel,
    scatter: &ScatterStore,
    mapping: &ThreadMapping,
    shares: &Shares,
) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let mut emitter = emitter(&dialect, kernel, mapping);
    let (columns, owners) = (kernel.points_of(&shares.columns), shares.owners);
    let groups = columns.div_ceil(WARP);
    let warps = kernel.points_of(&shares.batch) * owners * groups;
    let position = |value: usize| dialect.position(value as i64);
    let ty = dialect.position_type();
    let warp = format!("({}) / {WARP}", invocation(&dialect, mapping.workgroup));
    start(&mut emitter, "warp", &warp, warps);
    emitter.out.line(format!("const i32 lane = threadIdx.x % {WARP};"));
    for (name, value) in [
        ("batch", format!("warp / {}", position(owners * groups))),
        ("owner", format!("warp / {} % {}", position(groups), position(owners))),
        ("column", format!("warp % {} * {WARP} + lane", position(groups))),
        ("low", format!("owner * {}", position(scatter.extent.div_ceil(owners)))),
    ] {
        emitter.out.line(dialect.define(name, ty, &value));
    }
    emitter.positions("batch", &shares.batch, 1);
    emitter.positions("column", &shares.columns, 1);
    let updates = kernel.points_of(&shares.meeting);
    emitter.out.open(dialect.for_loop("first", "0", &position(updates), WARP * SCATTER_PREFETCH));
    look(&mut emitter, &dialect, scatter, shares);
    emitter.out.line("#pragma unroll");
    emitter.out.open(format!("for (i32 ahead = 0; ahead < {SCATTER_PREFETCH}; ahead++)"));
    emitter.out.line("u32 left = __ballot_sync(~0u, own[ahead] >= 0);");
    emitter.out.open("while (left != 0)");
    emitter.out.line("const u32 next = __ffs(left) - 1;");
    emitter.out.line("left &= left - 1;");
    emitter.out.line(dialect.define("index", ty, "__shfl_sync(~0u, own[ahead], next)"));
    emitter.out.line(dialect.define("update", ty, &format!("first + ahead * {WARP} + (i32)next")));
    emitter.out.open(format!("if (column < {})", position(columns)));
    emitter.positions("update", &shares.meeting, 1);
    update(&mut emitter, &dialect, scatter, "index");
    (0..4).for_each(|_| emitter.out.close());
    let blocks = (warps as u64 * WARP as u64).div_ceil(u64::from(mapping.workgroup));
    Ok(finish(part, mapping, &emitter, blocks))
}

/// The indices of some updates that fall to a warp, in `own`; -1 for others.
fn look(emitter: &mut Emitter<'_>, dialect: &Cuda, scatter: &ScatterStore, shares: &Shares) {
    let kernel = emitter.kernel;
    let width = dialect.position(scatter.extent.div_ceil(shares.owners) as i64);
    let updates = dialect.position(kernel.points_of(&shares.meeting) as i64);
    let ty = dialect.position_type();
    emitter.out.line(dialect.array("own", ty, SCATTER_PREFETCH));
    emitter.out.line("#pragma unroll");
    emitter.out.open(format!("for (i32 ahead = 0; ahead < {SCATTER_PREFETCH}; ahead++)"));
    emitter.out.line(dialect.define("update", ty, &format!("first + ahead * {WARP} + lane")));
    emitter.out.line("own[ahead] = -1;");
    emitter.out.open(format!("if (update < {updates})"));
    emitter.positions("update", &shares.meeting, 1);
    let mark = emitter.mark();
    emitter.define_all(&[scatter.index]);
    let index = emitter.name(scatter.index, ElementIndex::default());
    // By one of the warps that look at it.
    report(emitter, dialect, scatter, &index, Some("owner == 0 && column == lane"));
    let index = dialect.narrow(&index, emitter.kernel.exprs[scatter.index.index()].dtype);
    emitter.out.open(format!("else if ({index} >= low && {index} < low + {width})"));
    emitter.out.line(format!("own[ahead] = {index};"));
    emitter.forget(mark);
    (0..3).for_each(|_| emitter.out.close());
}

/// A branch for indices out of range, which are reported, where a condition holds.
fn report(
    emitter: &mut Emitter<'_>,
    dialect: &Cuda,
    scatter: &ScatterStore,
    index: &str,
    when: Option<&str>,
) {
    let dtype = emitter.kernel.exprs[scatter.index.index()].dtype;
    emitter.out.open(format!("if ({index} < 0 || {index} >= {})", scatter.extent));
    if scatter.checked {
        let report = dialect.report(index, dtype, scatter.extent);
        emitter.out.line(when.map_or(report.clone(), |when| format!("if ({when}) {report}")));
    }
    emitter.out.close();
}

/// Makes one update, at an index in range.
fn update(emitter: &mut Emitter<'_>, dialect: &Cuda, scatter: &ScatterStore, index: &str) {
    let mark = emitter.mark();
    emitter.define_all(&[scatter.value]);
    let elem = ElementIndex::default();
    let value = emitter.name(scatter.value, elem);
    let stride = dialect.position(scatter.stride);
    let base = emitter.affine(&scatter.address, elem);
    let of = emitter.kernel.exprs[scatter.index.index()].dtype;
    let at = format!("{base} + {} * {stride}", dialect.narrow(index, of));
    emitter.out.line(dialect.define("target", dialect.position_type(), &at));
    let merged = match scatter.mode.op() {
        None => value,
        Some(op) => {
            let dtype: DType = scatter.dtype.compute();
            dialect.alu(op, dtype, &[dialect.element(0, "target"), value])
        }
    };
    emitter.out.line(dialect.store(0, "target", &merged));
    emitter.forget(mark);
}
