//! CUDA C for kernels.
//!
//! - [`dialect`]: how it spells things.
//! - [`kernel`]: kernels without and with a contraction, scatters.
//! - [`mod@sort`]: sorting permutations.
//!
//! A pass's text is one `__global__` function, [`ENTRY`]. It takes a pointer
//! for each slot of the pass, then the launch's number (for reports of bad
//! indices), the first position of a chunk, and the bits of each scalar
//! argument. Pointers lead to element 0, so that inputs may start anywhere.

pub mod dialect;
pub mod kernel;
pub mod sort;

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{Kernel, Work};
use crate::render::shader::{Memory, Pass, Shader, Slot, Unsupported};
use crate::render::target::Target;

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
pub fn render_work(work: &Work, target: &Target) -> Result<Option<Shader>, Unsupported> {
    match work {
        Work::Kernel(kernel) => render(kernel, target).map(Some),
        Work::Sort(sort) => sort::render(sort).map(Some),
        Work::Custom(..) => Ok(None),
    }
}

/// The passes of a generated kernel.
///
/// # Errors
/// More slots than a launch takes; more elements than a launch reaches.
pub fn render(kernel: &Kernel, target: &Target) -> Result<Shader, Unsupported> {
    let kernel = crate::render::coalesce::coalesce(kernel);
    let pass = match (&kernel.contraction, &kernel.scatter) {
        (Some(c), _) => kernel::contraction(&kernel, c, target)?,
        (None, Some(scatter)) => kernel::scatter(&kernel, scatter, target)?,
        (None, None) => kernel::rows(&kernel, target)?,
    };
    if pass.slots.len() > target.max_buffers {
        return Err(Unsupported::Bindings { found: pass.slots.len(), limit: target.max_buffers });
    }
    Ok(Shader { name: kernel.name.clone(), passes: vec![pass], scratch: Vec::new() })
}

/// The parameters of a pass's function.
#[derive(Debug, Default)]
struct Parameters {
    text: String,
    slots: Vec<Slot>,
}

impl Parameters {
    /// A pointer to memory.
    fn pointer(&mut self, memory: Memory, ty: &str, name: &str) {
        self.slots.push(Slot { memory, start: 0 });
        let _ = write!(self.text, "{ty}* {name}, ");
    }
    fn status(&mut self) {
        self.pointer(Memory::Status, "u32", "status");
    }
    fn input(&mut self, slot: usize, dtype: DType) {
        self.pointer(
            Memory::Input(slot),
            &format!("const {}", dialect::storage(dtype)),
            &format!("in{slot}"),
        );
    }
    fn output(&mut self, number: usize, dtype: DType) {
        self.pointer(Memory::Output(number), dialect::storage(dtype), &format!("out{number}"));
    }
}

/// The text of a pass: a comment, the function's head, its body.
fn function(title: &str, parameters: &Parameters, arguments: usize, workgroup: u32, body: &str) -> String {
    let mut list = format!("{}u32 launch, i64 first", parameters.text);
    for number in 0..arguments {
        let _ = write!(list, ", u64 arg{number}");
    }
    format!(
        "// {}\nextern \"C\" __global__ void __launch_bounds__({workgroup}) {ENTRY}(\n    {list}\n) {{\n{body}}}\n",
        title.replace('\n', " ")
    )
}

/// One launch of a function.
fn pass(source: String, parameters: Parameters, workgroup: u32, groups: u64) -> Pass {
    let slots = parameters.slots;
    Pass { source, groups, workgroup, chunk: 0, chunks_end: 0, slots, words: 0, fours: Vec::new() }
}
