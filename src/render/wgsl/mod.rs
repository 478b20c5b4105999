//! WGSL for kernels.
//!
//! - [`dialect`]: how it spells things.
//! - [`prelude`]: functions that kernels call, those that a text needs.
//! - [`memory`]: bindings and access to elements.
//! - [`kernel`]: kernels without and with a contraction, scatters.
//! - [`hook`]: parts of a kernel as functions that templates call.
//! - [`mod@product`]: contractions by the templates in `shaders/`.
//! - [`mod@attention`]: attention by another.
//! - [`mod@scan`]: scans along long rows, and
//! - [`mod@sort`]: sorting permutations, by templates too.
//! - [`thresholds`]: tuning numbers of the templates.
//! - [`mod@link`]: several texts as one, of [`item`]s.
//! - [`words`]: 64-bit integers where shaders have none.
//! - [`sized`]: numbers that stem from sizes, and texts that serve several.

pub mod attention;
pub mod dialect;
pub mod hook;
pub mod item;
pub mod kernel;
pub mod link;
pub mod memory;
pub mod prelude;
pub mod product;
pub mod scan;
pub mod sized;
pub mod sort;
pub mod thresholds;
pub mod words;

use crate::base::DType;
use crate::kernel::{Expr, ExprId, JointPart, JointWork, Kernel, KernelRoot, Workload};
use crate::render::attention::{AttentionExtents, WgslAttentionTile};
use crate::render::choice::TemplateChoice;
use crate::render::coalesce::coalesce;
use crate::render::joint;
use crate::render::product::{oriented, suitable};
use crate::render::scan::WorkgroupScan;
use crate::render::shader::{Shader, Unsupported, uniform_words};
use crate::render::split::rewriter::needed;
use crate::render::split::{self, KernelSequence};
use crate::render::target::{Adapter, GpuTarget};
use crate::render::wgsl::memory::BindingDeclarations;

/// The shaders of a generated kernel.
///
/// # Errors
/// What the device lacks.
pub fn render(kernel: &Kernel, target: &GpuTarget) -> Result<Shader, Unsupported> {
    render_sequence(&kernel.name, split::split(kernel, target), target, kernel.inputs.len())
}

/// The shaders of kernels that are one launch; the targets differ in the ways that are chosen.
///
/// # Errors
/// What the device lacks.
pub fn render_joint(work: &JointWork, targets: &[GpuTarget]) -> Result<Shader, Unsupported> {
    let render = |part: &JointPart<'_>, target: &GpuTarget| {
        let mut sequence = split::split(&joint::with_arguments_of(work, part), target);
        joint::place(&mut sequence, part);
        render_sequence(&part.kernel.name, sequence, target, work.input_dtypes.len())
    };
    let shaders = joint::shaders(work, targets, &render)?;
    Ok(joint::join(shaders, work, &|linked| link::link(linked, targets.first()?)))
}

/// The shaders of a kernel's parts.
fn render_sequence(
    name: &str,
    KernelSequence { parts, scratch }: KernelSequence,
    target: &GpuTarget,
    inputs: usize,
) -> Result<Shader, Unsupported> {
    let mut passes = Vec::with_capacity(parts.len());
    for part in &parts {
        check_types(&part.kernel, target)?;
        let shader = kernel::KernelShader { part, target, inputs };
        let pass = match &part.kernel.root {
            KernelRoot::Contraction(given) => {
                let c = oriented(&part.kernel, given);
                match target.chosen(&suitable(&part.kernel, &c, target), TemplateChoice::Product) {
                    Some(tile) => product::render(&shader, &c, &tile)?,
                    None => shader.contraction(given)?,
                }
            }
            KernelRoot::Attention(a) => attention::render(&shader, a)?,
            KernelRoot::Scatter(scatter) => shader.scatter(scatter)?,
            KernelRoot::Elementwise => match WorkgroupScan::of(&part.kernel, target) {
                Some(shared) => scan::render(&shader, &shared)?,
                None => shader.rows()?,
            },
        };
        if pass.bindings.len() > target.max_buffers {
            return Err(Unsupported::Bindings { found: pass.bindings.len(), limit: target.max_buffers });
        }
        passes.push(pass);
    }
    Ok(Shader { name: name.to_string(), passes, scratch })
}

/// The ways in which a template computes a kernel, the one that is taken by itself first.
/// None for scans and sorts, whose threads a rule counts: one text serves all lengths, so
/// there is nothing to compile, and timed, for each.
pub fn choices(kernel: &Kernel, target: &GpuTarget) -> Vec<TemplateChoice> {
    let kernel = &coalesce(kernel);
    match &kernel.root {
        KernelRoot::Contraction(c) => {
            let tiles = suitable(kernel, &oriented(kernel, c), target);
            tiles.into_iter().map(TemplateChoice::Product).collect()
        }
        KernelRoot::Attention(a) => {
            let blocks = WgslAttentionTile::suitable(&AttentionExtents::of(kernel, a), target);
            blocks.into_iter().map(TemplateChoice::Attention).collect()
        }
        KernelRoot::Elementwise | KernelRoot::Scatter(_) => Vec::new(),
    }
}

/// Whether the device has the types of a kernel.
fn check_types(kernel: &Kernel, target: &GpuTarget) -> Result<(), Unsupported> {
    let stores = kernel.stores.iter().map(|store| store.dtype);
    let inputs = kernel.inputs.iter().map(|input| input.dtype);
    let values = needed(kernel, &roots(kernel), |_| false).into_iter().filter(|id| {
        // Casts to 32 bits and comparisons do without the position as `I64`.
        !matches!(kernel.expr(*id), Expr::Index(_))
    });
    for dtype in values.map(|id| kernel.exprs[id.index()].dtype).chain(stores).chain(inputs) {
        check_type(dtype, target)?;
    }
    Ok(())
}

/// The values that a kernel stores, multiplies or scatters.
fn roots(kernel: &Kernel) -> Vec<ExprId> {
    let mut roots: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    roots.extend(kernel.root.operands());
    roots
}

/// Whether the device has a type.
///
/// # Errors
/// Which feature it lacks.
pub fn check_type(dtype: DType, target: &GpuTarget) -> Result<(), Unsupported> {
    let feature = match dtype {
        DType::F64 if !target.float64 => "SHADER_F64",
        // Its bits are 64-bit integers.
        DType::F64 if !target.int64 => "SHADER_INT64",
        DType::Bool
        | DType::U8
        | DType::I32
        | DType::U32
        | DType::I64
        | DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64 => return Ok(()),
    };
    Err(Unsupported::Type { dtype, feature, instead: DType::F32 })
}

/// What a shader is made of.
struct ModuleParts<'a> {
    /// A comment line at the top.
    title: &'a str,
    adapter: Adapter,
    inputs: usize,
    arguments: usize,
    bindings: &'a BindingDeclarations,
    /// Whether numbers that stem from sizes are uniforms in every text.
    sizes_in_words: bool,
    /// Module-level declarations besides.
    declarations: String,
    main: Main<'a>,
}

/// Parameters of an entry point that tell an invocation's place in a subgroup.
const PLACE_IN_SUBGROUP: &str = "    @builtin(subgroup_id) own_subgroup: u32,\n    \
     @builtin(subgroup_size) subgroup_size: u32,\n    @builtin(subgroup_invocation_id) own_lane: u32,\n";

/// The entry point.
enum Main<'a> {
    /// Emitted: the invocations of a workgroup, whether they know their place in
    /// a subgroup, and what they do, indented.
    Body { workgroup: u32, subgroups: bool, text: &'a str },
    /// A template's text.
    Template(&'a str),
}

/// The text of a shader: header, bindings, the prelude it needs, `main`.
fn module(parts: &ModuleParts<'_>) -> String {
    let blocks = uniform_words(parts.inputs, parts.arguments) / 4;
    let prologue = &parts.bindings.prologue;
    let main = match parts.main {
        Main::Body { workgroup, subgroups, text } => format!(
            "\n@compute @workgroup_size({workgroup})\nfn main(\n    @builtin(workgroup_id) group: vec3<u32>,\n    \
             @builtin(num_workgroups) groups: vec3<u32>,\n    @builtin(local_invocation_index) local: u32,\n{}) {{\n{prologue}{text}}}\n",
            if subgroups { PLACE_IN_SUBGROUP } else { "" }
        ),
        Main::Template(text) => format!("fn read_offsets() {{\n{prologue}}}\n{text}"),
    };
    let own = format!("{}{}{main}", parts.bindings.text, parts.declarations);
    let prelude = prelude::needed(&own, parts.adapter);
    let pairs = [&own, &prelude].iter().any(|text| text.contains(words::TYPE));
    format!(
        "// {}\n@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, {}>;\n{}{prelude}{own}",
        parts.title.replace('\n', " "),
        sized::blocks(blocks, parts.sizes_in_words),
        if pairs { words::DECLARATION } else { "" },
    )
}

/// The shaders of any work, but for a user's kernel: `None`.
///
/// # Errors
/// What the device lacks.
pub fn render_work(work: &Workload, target: &GpuTarget) -> Result<Option<Shader>, Unsupported> {
    match work {
        Workload::Kernel(kernel) => render(kernel, target).map(Some),
        Workload::Sort(sort) => sort::render(sort, target).map(Some),
        Workload::Joint(joint) => render_joint(joint, &vec![target.clone(); joint.works().len()]).map(Some),
        Workload::Custom(..) => Ok(None),
    }
}
