//! CUDA C for kernels.
//!
//! - [`attention`]: attention by a template.
//! - [`dialect`]: how it spells things.
//! - [`kernel`]: kernels without and with a contraction.
//! - [`async_copy`]: operands of templates that are copied as they are (`cp.async`).
//! - [`plain_matmul`]: products that a library computes too.
//! - [`mod@link`]: several texts as one.
//! - [`mod@product`]: contractions by templates, split along k where that is faster.
//! - [`scan`]: scans of long rows by a template.
//! - [`mod@scatter`]: updates by index.
//! - [`tiles`]: which templates, in what sizes.
//! - [`thresholds`]: tuning numbers.
//! - [`skinny`]: products of few rows.
//! - [`operand_selection`]: operands that are computed before a product.
//! - [`mod@sort`]: sorting permutations, by a template.
//!
//! A pass's text is one `__global__` function, [`ENTRY`]. It takes a pointer
//! for each slot of the pass, then the launch's number (for reports of bad
//! indices), the first position of a chunk, and the bits of each scalar
//! argument. Pointers lead to element 0, so that inputs may start anywhere.

pub mod async_copy;
pub mod attention;
pub mod dialect;
pub mod kernel;
pub mod link;
pub mod operand_selection;
pub mod plain_matmul;
pub mod product;
pub mod scan;
pub mod scatter;
pub mod skinny;
pub mod sort;
pub mod thresholds;
pub mod tiles;

use crate::base::DType;
use crate::kernel::{JointPart, JointWork, Kernel, KernelRoot, Workload};
use crate::render::choice::TemplateChoice;
use crate::render::coalesce::coalesce;
use crate::render::joint;
use crate::render::product::oriented;
use crate::render::shader::{BufferBinding, Pass, PassBuffer, Shader, Unsupported};
use crate::render::split::{self, BoundKernel, KernelSequence};
use crate::render::target::GpuTarget;

/// The name of a pass's function.
pub const ENTRY: &str = "kiln_kernel";

/// The functions that kernels call.
pub const PRELUDE: &str = include_str!("../../../kernels/prelude.cuh");

/// What the compiler is given for a pass.
pub fn translation_unit(source: &str) -> String {
    format!("{PRELUDE}\n{source}")
}

/// The passes of any work, but for a user's kernel: `None`.
///
/// # Errors
/// More slots than a launch takes; more elements than a launch reaches.
pub fn render_work(work: &Workload, target: &GpuTarget) -> Result<Option<Shader>, Unsupported> {
    match work {
        Workload::Kernel(kernel) => render(kernel, target).map(Some),
        Workload::Sort(sort) => sort::render(sort).map(Some),
        Workload::Joint(joint) => render_joint(joint, target).map(Some),
        Workload::Custom(..) => Ok(None),
    }
}

/// The passes of a generated kernel.
///
/// # Errors
/// More slots than a launch takes; more elements than a launch reaches.
pub fn render(kernel: &Kernel, target: &GpuTarget) -> Result<Shader, Unsupported> {
    render_sequence(&kernel.name, sequence(kernel, target), target)
}

/// The passes of kernels that are one launch.
///
/// # Errors
/// As [`render`].
pub fn render_joint(work: &JointWork, target: &GpuTarget) -> Result<Shader, Unsupported> {
    let render = |part: &JointPart<'_>, target: &GpuTarget| {
        let mut sequence = sequence(&joint::with_arguments_of(work, part), target);
        joint::place(&mut sequence, part);
        render_sequence(&part.kernel.name, sequence, target)
    };
    let shaders = joint::shaders(work, &vec![target.clone(); work.works().len()], &render)?;
    Ok(joint::join(shaders, work, &|linked| link::link(linked, target)))
}

/// A kernel in parts.
fn sequence(kernel: &Kernel, target: &GpuTarget) -> KernelSequence {
    match (kernel.contraction(), product::as_sums(kernel)) {
        (None, _) => split::split(kernel, target),
        (Some(_), Some(sums)) => split::split(&sums, target),
        (Some(_), None) => product::split(BoundKernel::whole(coalesce(kernel)), target),
    }
}

/// The passes of a kernel's parts.
fn render_sequence(
    name: &str,
    KernelSequence { parts, scratch }: KernelSequence,
    target: &GpuTarget,
) -> Result<Shader, Unsupported> {
    let mut passes = Vec::with_capacity(parts.len());
    for part in &parts {
        let pass = match &part.kernel.root {
            KernelRoot::Attention(a) => attention::render(part, a, target)?,
            KernelRoot::Contraction(c) => product::render(part, c, target)?,
            KernelRoot::Scatter(scatter) => scatter::render(part, scatter, target)?,
            KernelRoot::Elementwise => match scan::shared(&part.kernel, target) {
                Some(shared) => scan::render(part, &shared, target)?,
                None => kernel::rows(part, target)?,
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
pub fn choices(kernel: &Kernel, target: &GpuTarget) -> Vec<TemplateChoice> {
    let kernel = &coalesce(kernel);
    match &kernel.root {
        KernelRoot::Contraction(_) if product::as_sums(kernel).is_some() => Vec::new(),
        KernelRoot::Contraction(c) => {
            let ways = tiles::suitable(kernel, &oriented(kernel, c), target);
            ways.into_iter().map(|way| TemplateChoice::CudaProduct(way.tile)).collect()
        }
        KernelRoot::Attention(a) => {
            let rows = attention::suitable(kernel, a, target);
            rows.into_iter().map(TemplateChoice::CudaAttention).collect()
        }
        KernelRoot::Elementwise | KernelRoot::Scatter(_) => Vec::new(),
    }
}

/// The parameters of a pass's function.
#[derive(Debug, Default)]
struct Parameters {
    /// Types and names.
    list: Vec<(String, String)>,
    slots: Vec<BufferBinding>,
    /// Names of tensor maps.
    tensor_maps: Vec<String>,
}

impl Parameters {
    /// Those of a part of a kernel.
    fn of(part: &BoundKernel, reports: bool) -> Parameters {
        let (kernel, mut parameters) = (&part.kernel, Parameters::default());
        if reports {
            parameters.status();
        }
        for (slot, (input, &memory)) in kernel.inputs.iter().zip(&part.inputs).enumerate() {
            let ty = format!("const {}", dialect::storage(input.dtype));
            parameters.pointer(memory, &ty, &format!("in{slot}"));
        }
        let stored = kernel.stores.iter().map(|store| store.dtype);
        let stored = kernel.scatter().into_iter().map(|scatter| scatter.dtype).chain(stored);
        for (number, (dtype, &memory)) in stored.zip(&part.outputs).enumerate() {
            parameters.pointer(memory, dialect::storage(dtype), &format!("out{number}"));
        }
        parameters
    }

    /// A pointer to memory.
    fn pointer(&mut self, memory: PassBuffer, ty: &str, name: &str) {
        self.slots.push(BufferBinding { memory, start: 0 });
        self.list.push((format!("{ty}*"), name.into()));
    }
    fn status(&mut self) {
        self.pointer(PassBuffer::Status, "u32", "status");
    }
    fn input(&mut self, slot: usize, dtype: DType) {
        self.pointer(
            PassBuffer::Input(slot),
            &format!("const {}", dialect::storage(dtype)),
            &format!("in{slot}"),
        );
    }
    fn output(&mut self, number: usize, dtype: DType) {
        self.pointer(PassBuffer::Output(number), dialect::storage(dtype), &format!("out{number}"));
    }

    /// Types and names of all: pointers, what every launch gives, arguments.
    fn all(&self, arguments: usize) -> Vec<(String, String)> {
        let word = |ty: &str, name: String| (ty.to_string(), name);
        let mut all = self.list.clone();
        all.extend([word("u32", "launch".into()), word("i64", "first".into())]);
        all.extend((0..arguments).map(|number| word("u64", format!("arg{number}"))));
        all
    }

    /// The names of all, and where tensor maps are.
    fn names(&self, arguments: usize) -> Vec<String> {
        let names = self.all(arguments).into_iter().map(|(_, name)| name);
        names.chain(self.tensor_maps.iter().map(|name| format!("&{name}"))).collect()
    }

    /// All as what a template's functions are members of.
    fn fields(&self, arguments: usize) -> String {
        let fields = self.all(arguments).into_iter().map(|(ty, name)| format!("    {ty} {name};\n"));
        let tensor_maps = self.tensor_maps.iter().map(|name| format!("    const TensorMap* {name};\n"));
        fields.chain(tensor_maps).collect()
    }
}

/// A function that a template calls, a member of what holds the parameters.
fn method(ty: &str, name: &str, parameters: &str, body: &str) -> String {
    format!("    KILN_METHOD {ty} {name}({parameters}) const {{\n{body}    }}\n")
}

/// The text of a pass: a comment, the function's head, its body. The bounds are the
/// threads of a block and, perhaps, the blocks that a multiprocessor has to hold.
fn function(
    title: &str,
    parameters: &Parameters,
    arguments: usize,
    bounds: impl std::fmt::Display,
    body: &str,
) -> String {
    let all = parameters.all(arguments);
    let tensor_maps = parameters.tensor_maps.iter();
    let tensor_maps = tensor_maps.map(|name| format!("const __grid_constant__ TensorMap {name}"));
    let list: Vec<String> =
        all.into_iter().map(|(ty, name)| format!("{ty} {name}")).chain(tensor_maps).collect();
    format!(
        "// {}\nextern \"C\" __global__ void __launch_bounds__({bounds}) {ENTRY}(\n    {}\n) {{\n{body}}}\n",
        title.replace('\n', " "),
        list.join(", ")
    )
}

/// One launch of a function.
fn pass(source: String, parameters: Parameters, workgroup: u32, groups: u64) -> Pass {
    Pass::new(source, groups, workgroup, parameters.slots)
}
