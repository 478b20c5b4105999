//! Attention by templates: `kernels/attention.cuh` computes it, or the logarithms of its
//! sums, `kernels/attention_backward.cuh` its gradients, those for 16-bit floats
//! (`tensor`) either, and `kernels/attention_query.cuh` that of few queries, on what a
//! function in front of them says.
//!
//! Before the function stand the extents; it defines, as lambdas, what an element of each
//! operand is, what becomes of a score where there is a
//! mask, and what of an element of the result. So operands may be any loads and
//! arithmetic, and the rest of a fused kernel follows the result.

mod tensor;

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::lower::attention::{AttentionLimits, FewQueries, MAX_WIDTH};
use crate::kernel::{AttentionPart, AxisId, Expr, ExprId, FusedAttention, Kernel};
use crate::render::attention::AttentionExtents;
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::hook::template;
use crate::render::c_like::writer::Writer;
use crate::render::c_like::{Coarsening, Dialect, Emitter, wide};
use crate::render::choice::TemplateChoice;
use crate::render::cuda::dialect::Cuda;
use crate::render::cuda::kernel::{is_wide, of_launch};
use crate::render::cuda::thresholds;
use crate::render::cuda::{Parameters, function, pass};
use crate::render::shader::{Pass, Unsupported};
use crate::render::split::BoundKernel;
use crate::render::target::GpuTarget;
use crate::render::thresholds::{FEW_QUERIES, KEYS_OF_FEW_QUERIES};

const BY_BLOCK: &str = include_str!("../../../kernels/attention_block.cuh");
const FORWARD: &str = include_str!("../../../kernels/attention.cuh");
const BACKWARD: &str = include_str!("../../../kernels/attention_backward.cuh");
const OF_QUERY: &str = include_str!("../../../kernels/attention_query.cuh");

/// A block of threads, and how it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaAttentionTile {
    /// Rows of what is computed that it has.
    pub rows: usize,
    /// Whether warpgroups multiply (wgmma).
    pub uses_wgmma: bool,
}

impl CudaAttentionTile {
    const fn of_warps(rows: usize) -> CudaAttentionTile {
        CudaAttentionTile { rows, uses_wgmma: false }
    }
    const fn of_groups(rows: usize) -> CudaAttentionTile {
        CudaAttentionTile { rows, uses_wgmma: true }
    }
}

/// What suits attentions of any size, the block expected to be fastest first: an estimate.
/// What is read of others serves twice as many rows; or there are more blocks, where rows are
/// few.
const BLOCKS: [CudaAttentionTile; 3] =
    [CudaAttentionTile::of_warps(64), CudaAttentionTile::of_warps(128), CudaAttentionTile::of_warps(32)];
/// A block for one of few queries; its teams of threads, and the threads of each.
const QUERY: CudaAttentionTile = CudaAttentionTile::of_warps(1);
const TEAMS: usize = 32;
const LANES: usize = 8;
/// Others that it looks at together; as the templates say.
const SIDE: usize = 64;
/// Columns, and others, in shared memory at a time; as the templates say.
const STEP: usize = 16;

/// What the template is used for.
pub const LIMITS: AttentionLimits = AttentionLimits {
    least_rows: BLOCKS[0].rows / thresholds::QUERY_FRACTION,
    few: Some(FewQueries {
        most_rows: FEW_QUERIES,
        keys_of_few: KEYS_OF_FEW_QUERIES,
        filling: thresholds::FILLING_QUERIES,
    }),
    least_work: 0,
    most_keys: i32::MAX as usize - SIDE,
    columns: MAX_WIDTH,
    backward: true,
};

/// The blocks that suit an attention, the one expected to be fastest first.
pub(super) fn suitable(kernel: &Kernel, a: &FusedAttention, target: &GpuTarget) -> Vec<CudaAttentionTile> {
    let (extents, way) = (AttentionExtents::of(kernel, a), AttentionTemplate::of(kernel, a));
    if way.is_query() {
        return vec![QUERY];
    }
    let own = own_rows(a, &extents);
    let Some(cuda) = target.cuda else { return vec![BLOCKS[0]] };
    let groups = if way.is_tensor() { tensor::of_groups(a, &extents, &cuda) } else { Vec::new() };
    let fits = |block: CudaAttentionTile| {
        way.shared_bytes(a, &extents, block) + sums_bytes(block.rows) <= cuda.shared_bytes()
    };
    let [first, others @ ..] = BLOCKS;
    let others = others.into_iter().chain(groups);
    let suits = |block: &CudaAttentionTile| fits(*block) && (block.rows < first.rows || own > first.rows);
    let mut all: Vec<CudaAttentionTile> = std::iter::once(first).chain(others.filter(suits)).collect();
    if way.is_tensor() {
        all.sort_by_key(|&block| tensor::rank(a, &extents, block, &cuda));
    }
    all
}

/// Rows of what is computed.
fn own_rows(a: &FusedAttention, extents: &AttentionExtents) -> usize {
    if a.part.by_query() { extents.rows } else { extents.keys }
}

/// Bytes of what gradients have of their queries, besides a block's shared memory: of a tile
/// and the next one, or of own ones.
fn sums_bytes(height: usize) -> usize {
    2 * 4 * height.max(2 * SIDE)
}

/// A part of an attention as a pass.
///
/// # Errors
/// More elements than positions reach.
pub(super) fn render(
    part: &BoundKernel,
    a: &FusedAttention,
    target: &GpuTarget,
) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let extents = AttentionExtents::of(kernel, a);
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let way = AttentionTemplate::of(kernel, a);
    let block =
        target.chosen(&suitable(kernel, a, target), TemplateChoice::CudaAttention).unwrap_or(BLOCKS[0]);
    let body = AttentionBody { part, a, dialect: &dialect, target };
    let (own, threads) = (own_rows(a, &extents), way.threads(a, block));
    let groups = (extents.batch * own.div_ceil(block.rows)) as u64;
    let (template, instance) = match way {
        AttentionTemplate::Tensor(name) => {
            (tensor::template(a, block), body.by_tensor_cores(name, &extents, block))
        }
        AttentionTemplate::Exact => (by_block(a, block), body.by_block(&extents, block)),
        AttentionTemplate::Query => (by_teams(), body.by_teams(&extents)),
    };
    let parameters = Parameters::of(part, kernel.reports());
    let bounds = format!("{threads}, {}", (way.resident(a, block) / threads).max(1));
    let source = template
        + &sizes(a, &extents, &instance)
        + &function(&kernel.name, &parameters, kernel.args, bounds, &instance.body);
    let shared_bytes = way.shared_bytes(a, &extents, block) as u32;
    let mut pass = Pass { shared_bytes, ..pass(source, parameters, threads as u32, groups) };
    pass.vec4_inputs = of_launch(part, &instance.vec4_accesses);
    pass.inputs_aligned_to_16 = of_launch(part, &instance.pieces);
    Ok(pass)
}

/// What stands before an attention by a block's shared memory.
fn by_block(a: &FusedAttention, block: CudaAttentionTile) -> String {
    format!("constexpr i32 ATTENTION_TILE_ROWS = {};\n", block.rows)
        + template(BY_BLOCK)
        + if a.part.is_gradient() { BACKWARD } else { FORWARD }
}

/// What stands before an attention of few queries.
fn by_teams() -> String {
    format!(
        "constexpr i32 ATTENTION_LANES = {LANES}, ATTENTION_TEAMS = {TEAMS}, ATTENTION_KEYS = {};\n",
        thresholds::KEYS_OF_TEAM
    ) + template(OF_QUERY)
}

/// What is instance for a template.
struct TemplateInstance {
    /// How it multiplies; as it says, if it does not leave it open.
    shares: Option<&'static str>,
    /// Its constants besides the sizes.
    conditions: Vec<(&'static str, bool)>,
    /// The function's body.
    body: String,
    /// The kernel's inputs that are read by vec4 accesses, and those that are copied by chunks.
    vec4_accesses: Vec<bool>,
    pieces: Vec<bool>,
}

/// The constants that the template is instance in.
fn sizes(a: &FusedAttention, extents: &AttentionExtents, instance: &TemplateInstance) -> String {
    let mut text = "struct Extents {\n".to_string();
    text.extend(instance.shares.map(|shares| format!("    typedef {shares} Shares;\n")));
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
    for (name, value) in conditions.iter().chain(&instance.conditions) {
        let _ = writeln!(text, "    static constexpr bool {name} = {value};");
    }
    text + "};\n"
}

/// By which template.
#[derive(Clone, Copy, Debug)]
enum AttentionTemplate {
    /// On tensor cores, for a type that templates name so.
    Tensor(&'static str),
    /// `kernels/attention_block.cuh`.
    Exact,
    /// `kernels/attention_query.cuh`.
    Query,
}

impl AttentionTemplate {
    /// Few queries one by one; of many, on tensor cores what is 16-bit floats, exactly all else.
    fn of(kernel: &Kernel, a: &FusedAttention) -> AttentionTemplate {
        if a.part == AttentionPart::Result && kernel.points_of(&a.rows) <= FEW_QUERIES {
            return AttentionTemplate::Query;
        }
        let factors = [Some(a.q), Some(a.k), a.v, a.g];
        let are = |dtype| factors.iter().flatten().all(|factor| kernel.exprs[factor.index()].dtype == dtype);
        match (are(DType::F16), are(DType::BF16)) {
            (true, _) => AttentionTemplate::Tensor("AttentionF16"),
            (_, true) => AttentionTemplate::Tensor("AttentionBF16"),
            (false, false) => AttentionTemplate::Exact,
        }
    }

    fn is_tensor(self) -> bool {
        matches!(self, AttentionTemplate::Tensor(_))
    }

    fn is_query(self) -> bool {
        matches!(self, AttentionTemplate::Query)
    }

    /// Bytes of a block's shared memory.
    fn shared_bytes(self, a: &FusedAttention, extents: &AttentionExtents, block: CudaAttentionTile) -> usize {
        match self {
            AttentionTemplate::Tensor(_) => tensor::shared_bytes(a, extents, block),
            AttentionTemplate::Exact => exact_bytes(extents.width, block.rows),
            AttentionTemplate::Query => query_bytes(extents.width),
        }
    }

    /// Threads of a block.
    fn threads(self, a: &FusedAttention, block: CudaAttentionTile) -> usize {
        match self {
            AttentionTemplate::Tensor(_) => tensor::threads(a, block),
            AttentionTemplate::Exact => 2 * block.rows,
            AttentionTemplate::Query => LANES * TEAMS,
        }
    }

    /// Threads of a multiprocessor, at least.
    fn resident(self, a: &FusedAttention, block: CudaAttentionTile) -> usize {
        match self {
            AttentionTemplate::Tensor(_) => tensor::resident(a, block),
            AttentionTemplate::Exact | AttentionTemplate::Query => thresholds::ATTENTION_RESIDENT_THREADS,
        }
    }
}

/// Bytes of the shared memory of a block that multiplies exactly, for results so wide and so
/// many own rows; as the template says.
fn exact_bytes(width: usize, height: usize) -> usize {
    let more = 4;
    let lines = (height + SIDE) * (STEP + more) + height * (SIDE + more);
    4 * (lines + STEP * width.next_multiple_of(8))
}

/// Bytes of what warps leave each other of one query, as the template says.
fn query_bytes(width: usize) -> usize {
    LANES * TEAMS / 32 * 4 * (2 + width)
}

/// A parameter, and the axes along which it says the position.
type AxisParameter<'a> = (&'a str, &'a [AxisId]);

/// A function's body, to be instance.
struct AttentionBody<'a> {
    part: &'a BoundKernel,
    a: &'a FusedAttention,
    dialect: &'a Cuda,
    target: &'a GpuTarget,
}

impl AttentionBody<'_> {
    fn kernel(&self) -> &Kernel {
        &self.part.kernel
    }

    /// Rows and keys: attentions that are summed lie side by side.
    fn lines(&self) -> [Vec<AxisId>; 2] {
        let a = self.a;
        let all = |others: bool, axes: &[AxisId]| [if others { &a.summed[..] } else { &[] }, axes].concat();
        [all(!a.part.by_query(), &a.rows), all(a.part.by_query(), &a.keys)]
    }

    fn by_block(&self, extents: &AttentionExtents, block: CudaAttentionTile) -> TemplateInstance {
        let name = if self.a.part.is_gradient() { "attention_backward" } else { "attention" };
        let bytes = exact_bytes(extents.width, block.rows);
        let body = self.of_elements("AttentionBlock<Extents::Shares, Extents::WIDTH>", bytes, name);
        TemplateInstance { shares: Some("AttentionExact"), ..body }
    }

    fn by_teams(&self, extents: &AttentionExtents) -> TemplateInstance {
        self.of_elements("AttentionWarps<Extents::WIDTH>", query_bytes(extents.width), "attention_query")
    }

    /// For a template that asks for operands' elements and has so much shared memory.
    fn of_elements(&self, shared: &str, bytes: usize, name: &str) -> TemplateInstance {
        let a = self.a;
        let mut text = format!("    KILN_SHARED(shared);\n    typedef {shared} Block;\n");
        let _ = writeln!(text, "    static_assert(sizeof(Block) == {bytes}, \"as launched\");");
        text += "    Block& block = *(Block*)shared;\n";
        let [rows, keys] = self.lines();
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
        text += &self.call(name, functions);
        TemplateInstance {
            shares: None,
            conditions: Vec::new(),
            body: text,
            vec4_accesses: Vec::new(),
            pieces: Vec::new(),
        }
    }

    fn call(&self, name: &str, functions: &str) -> String {
        let scale = (f64::from_bits(self.a.scale) as f32).to_bits();
        let scale = self.dialect.constant(DType::F32, u64::from(scale));
        let place = self.dialect.position_type();
        format!("    {name}<Extents, {place}>(block, {scale}, {functions}, masked, store);\n")
    }

    /// An emitter that knows positions along some axes, and a function's head.
    fn begin(&self, name: &str, sides: &[AxisParameter<'_>], more: &str) -> (Emitter<'_>, String) {
        let mut emitter = Emitter::new(self.dialect, self.kernel(), Coarsening::single(self.kernel()));
        emitter.vec4 = (vec![false; self.kernel().inputs.len()], vec![false; self.kernel().stores.len()]);
        emitter.out = Writer::inside(2);
        let place = self.dialect.position_type();
        let mut list = format!("{place} batch");
        emitter.positions("batch", &wide(self.kernel(), self.a.batch.iter().copied()), 1);
        for (side, axes) in sides {
            let _ = write!(list, ", {place} {side}");
            emitter.positions(side, &wide(self.kernel(), axes.iter().copied()), 1);
        }
        (emitter, format!("    const auto {name} = [&]({list}{more})"))
    }

    /// What an element of an operand is; 0 where there is none.
    fn operand(&self, name: &str, sides: &[AxisParameter<'_>], value: Option<ExprId>) -> String {
        let (mut emitter, head) = self.begin(name, sides, "");
        emitter.define_all(value.as_slice());
        let value = match value {
            Some(value) => emitter.name(value, ElementIndex::default()),
            None => self.dialect.constant(DType::F32, 0),
        };
        format!("{head} -> f32 {{\n{}        return {value};\n    }};\n", emitter.out.text())
    }

    /// What a mask makes of a score.
    fn masked(&self, rows: AxisParameter<'_>, keys: AxisParameter<'_>) -> String {
        let (mut emitter, head) = self.begin("masked", &[rows, keys], ", f32 x");
        let result = self.a.mask.map_or("x".to_string(), |mask| {
            emitter.define_all(&[mask]);
            let value = emitter.name(mask, ElementIndex::default());
            let minus_infinity = self.dialect.constant(DType::F32, u64::from(f32::NEG_INFINITY.to_bits()));
            match self.kernel().exprs[mask.index()].dtype == DType::Bool {
                true => format!("({value} ? x : {minus_infinity})"),
                false => format!("(x + {value})"),
            }
        });
        format!("{head} -> f32 {{\n{}        return {result};\n    }};\n", emitter.out.text())
    }

    /// Stores what becomes of an element of the result.
    fn store(&self, own: AxisParameter<'_>) -> String {
        let (mut emitter, head) = self.begin("store", &[own, ("column", &self.a.width)], ", f32 x");
        let exprs = (0..self.kernel().exprs.len() as u32).map(ExprId);
        for id in exprs.filter(|id| *self.kernel().expr(*id) == Expr::Accumulator) {
            let name = emitter.name(id, ElementIndex::default());
            emitter.out.line(self.dialect.define(&name, "f32", "x"));
            emitter.assume(id);
        }
        let values: Vec<ExprId> = self.kernel().stores.iter().map(|store| store.value).collect();
        emitter.define_all(&values);
        (0..self.kernel().stores.len()).for_each(|store| emitter.store(store, &|_| None));
        format!("{head} {{\n{}    }};\n", emitter.out.text())
    }
}
