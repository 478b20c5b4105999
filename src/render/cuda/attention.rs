//! Attention by templates: `kernels/attention.cuh` computes it, or the logarithms of its
//! sums, `kernels/attention_backward.cuh` its gradients, on what a function in front of
//! them says.
//!
//! Before the function stand the extents; it defines, as lambdas, what an element of each
//! operand is, what becomes of a score where there is a
//! mask, and what of an element of the result. So operands may be any loads and
//! arithmetic, and the rest of a fused kernel follows the result.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::lower::attention::{MAX_WIDTH, Range};
use crate::kernel::{Attention, AttentionPart, AxisId, Expr, ExprId, Kernel};
use crate::render::attention::Extents;
use crate::render::c_like::emit::Lane;
use crate::render::c_like::hook::template;
use crate::render::c_like::writer::Writer;
use crate::render::c_like::{Dialect, Emitter, Lanes, wide};
use crate::render::choice::Choice;
use crate::render::cuda::dialect::Cuda;
use crate::render::cuda::kernel::{is_wide, reports};
use crate::render::cuda::{Parameters, function, pass};
use crate::render::shader::{Pass, Unsupported};
use crate::render::split::Part;
use crate::render::target::Target;

const BLOCK: &str = include_str!("../../../kernels/attention_block.cuh");
const FORWARD: &str = include_str!("../../../kernels/attention.cuh");
const BACKWARD: &str = include_str!("../../../kernels/attention_backward.cuh");

/// Own rows of a block, the number expected to be fastest first: an estimate. What is
/// read of others serves twice as many; or there are more blocks, where rows are few.
const HEIGHTS: [usize; 3] = [64, 128, 32];
/// Others that it looks at together; as the templates say.
const SIDE: usize = 64;
/// Columns, and others, in shared memory at a time; as the templates say.
const STEP: usize = 16;
/// Threads of a multiprocessor, at least: left to itself the compiler aims at more of
/// them, and spills registers.
const RESIDENT: usize = 256;

/// What the template is used for.
pub const RANGE: Range = Range {
    // A quarter of a block's queries; for fewer, products by themselves waste less.
    least_rows: HEIGHTS[0] / 4,
    least_work: 0,
    most_keys: i32::MAX as usize - SIDE,
    columns: MAX_WIDTH,
    backward: true,
};

/// The own rows of a block that suit an attention, the number expected to be fastest first.
pub(super) fn suitable(kernel: &Kernel, a: &Attention, target: &Target) -> Vec<usize> {
    let (extents, shares) = (Extents::of(kernel, a), Shares::of(kernel, a));
    let own = own_rows(a, &extents);
    let most = target.nvidia.map_or(0, |nvidia| nvidia.shared_bytes());
    let fits = |height: usize| shares.shared_bytes(extents.width, height) + sums_bytes(height) <= most;
    let suits = |height: usize| fits(height) && (height < HEIGHTS[0] || own > HEIGHTS[0]);
    let [first, others @ ..] = HEIGHTS;
    std::iter::once(first).chain(others.into_iter().filter(|&height| suits(height))).collect()
}

/// Rows of what is computed.
fn own_rows(a: &Attention, extents: &Extents) -> usize {
    if a.part.by_query() { extents.rows } else { extents.keys }
}

/// Bytes of what gradients have of their queries, besides a block's shared memory.
fn sums_bytes(height: usize) -> usize {
    2 * 4 * height.max(SIDE)
}

/// A part of an attention as a pass.
///
/// # Errors
/// More elements than positions reach.
pub(super) fn render(part: &Part, a: &Attention, target: &Target) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let extents = Extents::of(kernel, a);
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let shares = Shares::of(kernel, a);
    let height = target.chosen(&suitable(kernel, a, target), Choice::CudaAttention).unwrap_or(HEIGHTS[0]);
    let shared_bytes = shares.shared_bytes(extents.width, height);
    let body = Body { kernel, a, dialect: &dialect, shared_bytes };
    let parameters = Parameters::of(part, reports(kernel));
    let threads = 2 * height;
    let bounds = format!("{threads}, {}", RESIDENT / threads);
    let source = format!("constexpr i32 ATTENTION_HEIGHT = {height};\n")
        + template(BLOCK)
        + if a.part.is_gradient() { BACKWARD } else { FORWARD }
        + &sizes(a, &extents, shares)
        + &function(&kernel.name, &parameters, kernel.args, bounds, &body.text());
    let groups = (extents.batch * own_rows(a, &extents).div_ceil(height)) as u64;
    let shared_bytes = shared_bytes as u32;
    Ok(Pass { shared_bytes, ..pass(source, parameters, threads as u32, groups) })
}

/// The constants that the template is written in.
fn sizes(a: &Attention, extents: &Extents, shares: Shares) -> String {
    let mut text = format!("struct Extents {{\n    typedef {} Shares;\n", shares.name);
    let numbers = [
        ("ROWS", extents.rows),
        ("KEYS", extents.keys),
        ("DEPTH", extents.depth),
        ("COLUMNS", extents.columns),
        ("WIDTH", extents.width),
        ("SUMMED", extents.summed),
    ];
    for (name, value) in numbers {
        let _ = writeln!(text, "    static constexpr i32 {name} = {value};");
    }
    let conditions = [
        ("CAUSAL", a.causal),
        ("MASKED", a.mask.is_some()),
        ("LOG_SUM", a.part == AttentionPart::LogSum),
        ("BY_QUERY", a.part.by_query()),
        ("OF_VALUES", a.part == AttentionPart::ValueGradient),
    ];
    for (name, value) in conditions {
        let _ = writeln!(text, "    static constexpr bool {name} = {value};");
    }
    text + "};\n"
}

/// How the templates multiply; as they say.
#[derive(Clone, Copy, Debug)]
struct Shares {
    name: &'static str,
    /// Bytes of a number in shared memory.
    size: usize,
    /// Columns that lines of rows have more than they need, and those of values.
    more: [usize; 2],
    /// What lines of values are a multiple of.
    columns: usize,
}

impl Shares {
    /// On tensor cores what is 16-bit floats, exactly all else.
    fn of(kernel: &Kernel, a: &Attention) -> Shares {
        let factors = [Some(a.q), Some(a.k), a.v, a.g];
        let are = |dtype| factors.iter().flatten().all(|factor| kernel.exprs[factor.index()].dtype == dtype);
        let tensor = |name| Shares { name, size: 2, more: [8, 8], columns: 16 };
        match (are(DType::F16), are(DType::BF16)) {
            (true, _) => tensor("AttentionF16"),
            (_, true) => tensor("AttentionBF16"),
            (false, false) => Shares { name: "AttentionExact", size: 4, more: [1, 0], columns: 8 },
        }
    }

    /// Bytes of a block's shared memory, for results so wide and so many own rows.
    fn shared_bytes(&self, width: usize, height: usize) -> usize {
        let lines = (height + SIDE) * (STEP + self.more[0]) + height * (SIDE + self.more[0]);
        self.size * (lines + STEP * (width.next_multiple_of(self.columns) + self.more[1]))
    }
}

/// A parameter, and the axes along which it says the position.
type Side<'a> = (&'a str, &'a [AxisId]);

/// A function's body, to be written.
struct Body<'a> {
    kernel: &'a Kernel,
    a: &'a Attention,
    dialect: &'a Cuda,
    shared_bytes: usize,
}

impl Body<'_> {
    fn text(&self) -> String {
        let (a, mut text) = (self.a, String::new());
        text +=
            "    KILN_SHARED(shared);\n    typedef AttentionBlock<Extents::Shares, Extents::WIDTH> Block;\n";
        let _ = writeln!(text, "    static_assert(sizeof(Block) == {}, \"as launched\");", self.shared_bytes);
        text += "    Block& block = *(Block*)shared;\n";
        // Attentions that are summed lie side by side.
        let all = |others: bool, axes: &[AxisId]| [if others { &a.summed[..] } else { &[] }, axes].concat();
        let (rows, keys) = (all(!a.part.by_query(), &a.rows), all(a.part.by_query(), &a.keys));
        let (rows, keys) = (("row", &rows[..]), ("key", &keys[..]));
        let (depth, column) = (("depth", &a.depth[..]), ("column", &a.columns[..]));
        text += &self.operand("load_q", &[rows, depth], Some(a.q));
        text += &self.operand("load_k", &[keys, depth], Some(a.k));
        text += &self.operand("load_v", &[keys, column], a.v);
        let mut functions = "load_q, load_k, load_v";
        if a.part.is_gradient() {
            text += &self.operand("load_g", &[rows, column], a.g);
            text += &self.operand("load_log_sum", &[rows], a.log_sum);
            text += &self.operand("load_product", &[rows], a.product);
            functions = "load_q, load_k, load_v, load_g, load_log_sum, load_product";
        }
        text += &self.masked(rows, keys);
        text += &self.store(if a.part.by_query() { rows } else { keys });
        let scale = (f64::from_bits(a.scale) as f32).to_bits();
        let scale = self.dialect.constant(DType::F32, u64::from(scale));
        let place = self.dialect.position_type();
        let name = if a.part.is_gradient() { "attention_backward" } else { "attention" };
        let _ = writeln!(text, "    {name}<Extents, {place}>(block, {scale}, {functions}, masked, store);");
        text
    }

    /// An emitter that knows positions along some axes, and a function's head.
    fn begin(&self, name: &str, sides: &[Side<'_>], more: &str) -> (Emitter<'_>, String) {
        let mut emitter = Emitter::new(self.dialect, self.kernel, Lanes::single(self.kernel));
        emitter.by_four = (vec![false; self.kernel.inputs.len()], vec![false; self.kernel.stores.len()]);
        emitter.out = Writer::inside(2);
        let place = self.dialect.position_type();
        let mut list = format!("{place} batch");
        emitter.positions("batch", &wide(self.kernel, self.a.batch.iter().copied()), 1);
        for (side, axes) in sides {
            let _ = write!(list, ", {place} {side}");
            emitter.positions(side, &wide(self.kernel, axes.iter().copied()), 1);
        }
        (emitter, format!("    const auto {name} = [&]({list}{more})"))
    }

    /// What an element of an operand is; 0 where there is none.
    fn operand(&self, name: &str, sides: &[Side<'_>], value: Option<ExprId>) -> String {
        let (mut emitter, head) = self.begin(name, sides, "");
        emitter.define_all(value.as_slice());
        let value = match value {
            Some(value) => emitter.name(value, Lane::default()),
            None => self.dialect.constant(DType::F32, 0),
        };
        format!("{head} -> f32 {{\n{}        return {value};\n    }};\n", emitter.out.text())
    }

    /// What a mask makes of a score.
    fn masked(&self, rows: Side<'_>, keys: Side<'_>) -> String {
        let (mut emitter, head) = self.begin("masked", &[rows, keys], ", f32 x");
        let result = self.a.mask.map_or("x".to_string(), |mask| {
            emitter.define_all(&[mask]);
            let value = emitter.name(mask, Lane::default());
            let nowhere = self.dialect.constant(DType::F32, u64::from(f32::NEG_INFINITY.to_bits()));
            match self.kernel.exprs[mask.index()].dtype == DType::Bool {
                true => format!("({value} ? x : {nowhere})"),
                false => format!("(x + {value})"),
            }
        });
        format!("{head} -> f32 {{\n{}        return {result};\n    }};\n", emitter.out.text())
    }

    /// Stores what becomes of an element of the result.
    fn store(&self, own: Side<'_>) -> String {
        let (mut emitter, head) = self.begin("store", &[own, ("column", &self.a.width)], ", f32 x");
        let exprs = (0..self.kernel.exprs.len() as u32).map(ExprId);
        for id in exprs.filter(|id| *self.kernel.expr(*id) == Expr::Accumulator) {
            let name = emitter.name(id, Lane::default());
            emitter.out.line(self.dialect.define(&name, "f32", "x"));
            emitter.assume(id);
        }
        let values: Vec<ExprId> = self.kernel.stores.iter().map(|store| store.value).collect();
        emitter.define_all(&values);
        (0..self.kernel.stores.len()).for_each(|store| emitter.store(store, &|_| None));
        format!("{head} {{\n{}    }};\n", emitter.out.text())
    }
}
