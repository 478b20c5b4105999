//! Works that a device launches as one.

use std::sync::Arc;

use crate::base::DType;
use crate::kernel::nest::{Kernel, Workload};

/// Kernels that are one launch, the first first. Its inputs, outputs and arguments are those of all of them, one
/// kernel's after the other's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JointWork {
    /// The kernels, each a [`Workload::Kernel`].
    parts: Vec<Arc<Workload>>,
    /// The types of the elements of all inputs.
    pub input_dtypes: Vec<DType>,
    /// Memory that kernels share with earlier ones, beside what all read. With any, they are elementwise: of an
    /// earlier one's output, each element that is computed needs the one at its own place.
    pub aliases: Vec<JointAlias>,
}

/// Memory of a kernel that is an earlier one's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JointAlias {
    /// What the kernel does with it.
    pub slot: JointSlot,
    /// The output's number among all.
    pub output: usize,
}

/// An input or an output of a kernel, by its number among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JointSlot {
    /// What it reads.
    Input(usize),
    /// What it writes.
    Output(usize),
}

/// A kernel of several, and where its inputs, outputs and arguments are among all.
#[derive(Clone, Copy, Debug)]
pub struct JointPart<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Its first input.
    pub input: usize,
    /// Its first output.
    pub output: usize,
    /// Its first argument.
    pub argument: usize,
}

impl JointWork {
    /// Works that are kernels, with what they share.
    pub fn new(parts: Vec<Arc<Workload>>, aliases: Vec<JointAlias>) -> JointWork {
        debug_assert!(parts.iter().all(|part| part.kernel().is_some()), "only kernels are launched as one");
        let kernels = parts.iter().filter_map(|part| part.kernel());
        let input_dtypes = kernels.flat_map(|kernel| kernel.inputs.iter().map(|input| input.dtype)).collect();
        JointWork { parts, input_dtypes, aliases }
    }

    /// The kernels as works of their own.
    pub fn works(&self) -> &[Arc<Workload>] {
        &self.parts
    }

    /// The kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.parts.iter().filter_map(|part| part.kernel())
    }

    /// The kernels, with what is theirs.
    pub fn parts(&self) -> impl Iterator<Item = JointPart<'_>> {
        self.kernels().scan((0, 0, 0), |(input, output, argument), kernel| {
            let part = JointPart { kernel, input: *input, output: *output, argument: *argument };
            *input += kernel.inputs.len();
            *output += kernel.stores.len();
            *argument += kernel.args;
            Some(part)
        })
    }

    /// The kernels' names.
    pub fn name(&self) -> String {
        self.kernels().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(" and ")
    }
}
