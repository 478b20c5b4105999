//! What a renderer gives: texts, and what a launch must know.

use crate::kernel::{Contraction, Kernel};
use crate::render::choice::TemplateChoice;

/// Something rendered: passes that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// For people: the kernel's name.
    pub name: String,
    /// In the order in which they run.
    pub passes: Vec<Pass>,
    /// Bytes of each block of memory that the passes share among themselves.
    pub scratch: Vec<usize>,
}

/// One compute shader and how it is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The text; its entry point is `main`, in CUDA C
    /// [`ENTRY`](crate::render::cuda::ENTRY). In WGSL numbers that stem from sizes
    /// are marked ([`sized`](crate::render::wgsl::sized)).
    pub source: String,
    /// Workgroups there must be at least.
    pub workgroups: u64,
    /// Invocations of a workgroup.
    pub workgroup_size: u32,
    /// What each dispatch after the first adds to the uniform [`DISPATCH_START`].
    pub dispatch_stride: u32,
    /// Where that uniform ends. One dispatch if it is 0.
    pub dispatch_end: u32,
    /// The storage buffers, from binding 1 on; binding 0 is the uniform block.
    pub bindings: Vec<BufferBinding>,
    /// 32-bit words of the uniform block: a multiple of 4.
    pub uniform_words: usize,
    /// Inputs read by vec4 loads, which must start at a multiple of four elements.
    pub vec4_inputs: Vec<usize>,
    /// Inputs read by vec8 loads, which must start at a multiple of eight elements.
    pub vec8_inputs: Vec<usize>,
    /// Inputs read or copied 16 bytes at a time, which must start at a multiple of 16 bytes.
    pub inputs_aligned_to_16: Vec<usize>,
    /// Bytes of shared memory that a launch asks for, besides what the text declares.
    pub shared_bytes: u32,
    /// Inputs that the device copies by TMA, in the order of the function's last parameters.
    pub tensor_maps: Vec<TensorMapSpec>,
    /// Which elements of a product each invocation stores, where that is known.
    pub stored_tile: Option<StoredTile>,
}

/// The elements of a product that each invocation stores: of two products for which it is equal, the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTile {
    /// Matrices, rows and columns.
    pub extents: [usize; 3],
    /// The tile that is computed together.
    pub tile: TemplateChoice,
}

/// A TMA tensor map: matrices of 16-bit elements that the device copies to shared memory by
/// itself (CUDA's `CUtensorMap`, a kernel parameter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapSpec {
    /// The buffer they are in.
    pub memory: PassBuffer,
    /// Bytes before the first element.
    pub start: usize,
    /// Elements of a line, lines of a matrix, matrices.
    pub extents: [usize; 3],
    /// Bytes from a line to the next, and from a matrix to the next.
    pub strides: [usize; 2],
    /// Elements and lines of one copy.
    pub box_shape: [usize; 2],
}

impl StoredTile {
    /// Of a product.
    pub fn of_product(kernel: &Kernel, c: &Contraction, tile: TemplateChoice) -> StoredTile {
        StoredTile { extents: [&c.batch, &c.m, &c.n].map(|axes| kernel.points_of(axes)), tile }
    }

    /// Of a kernel whose points follow one axis, so many of an invocation, which so many threads share.
    pub fn of_points(kernel: &Kernel, points: usize, threads: usize) -> Option<StoredTile> {
        let along = kernel.level_axes(0).filter(|axis| kernel.axes[axis.index()].extent > 1).count();
        let extents = [1, 1, kernel.level_points(0)];
        (along <= 1).then_some(StoredTile { extents, tile: TemplateChoice::Invocation([threads, points]) })
    }
}

impl Pass {
    /// One dispatch of a text that has no uniforms and reads from any element on.
    pub fn new(source: String, workgroups: u64, workgroup_size: u32, bindings: Vec<BufferBinding>) -> Pass {
        Pass {
            source,
            workgroups,
            workgroup_size,
            dispatch_stride: 0,
            dispatch_end: 0,
            bindings,
            uniform_words: 0,
            vec4_inputs: Vec::new(),
            vec8_inputs: Vec::new(),
            inputs_aligned_to_16: Vec::new(),
            shared_bytes: 0,
            tensor_maps: Vec::new(),
            stored_tile: None,
        }
    }

    /// The text, without marks.
    pub fn text(&self) -> String {
        crate::render::wgsl::sized::plain(&self.source)
    }
}

/// A storage buffer that a pass binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferBinding {
    /// The memory.
    pub memory: PassBuffer,
    /// Bytes from the start of the memory to the start of the binding.
    pub start: u64,
}

/// A buffer that a pass uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassBuffer {
    /// Where indices out of range are reported.
    Status,
    /// An input of the launch.
    Input(usize),
    /// An output of the launch.
    Output(usize),
    /// A block of [`Shader::scratch`].
    Scratch(usize),
}

impl PassBuffer {
    /// The number of the launch's input, if it is one.
    pub fn input(self) -> Option<usize> {
        if let PassBuffer::Input(number) = self { Some(number) } else { None }
    }
}

// The uniform block, in 32-bit words. Word 0 is always 0, which no compiler knows: numbers
// combined with it bitwise stay what they are, and algebra that holds only for
// ordinary numbers finds no pattern to work on.

/// The uniform that numbers the launch in reports of bad indices.
pub const LAUNCH_NUMBER: usize = 1;
/// The uniform that holds the first position of a dispatch.
pub const DISPATCH_START: usize = 2;
/// The first of the uniforms that hold each input's element offset.
pub const INPUT_OFFSETS: usize = 4;

/// The first of the two uniforms of a scalar argument.
pub const fn argument_uniform(inputs: usize, argument: usize) -> usize {
    INPUT_OFFSETS + inputs + 2 * argument
}

/// 32-bit words of the uniform block, for so many inputs and arguments.
pub const fn uniform_words(inputs: usize, arguments: usize) -> usize {
    argument_uniform(inputs, arguments).next_multiple_of(4)
}

/// What keeps work from being rendered for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A type that the device lacks.
    #[error(
        "{dtype} needs the feature {feature}, which {{adapter}} lacks; compute in {instead}, or on another device (cpu)"
    )]
    Type {
        /// The type.
        dtype: crate::base::DType,
        /// The adapter's feature.
        feature: &'static str,
        /// A type that is there.
        instead: crate::base::DType,
    },
    /// More bindings than the device has.
    #[error(
        "{found} buffers, more than the {limit} that {{adapter}} binds at once; realize a part of the graph first"
    )]
    Bindings {
        /// Needed.
        found: usize,
        /// There are.
        limit: usize,
    },
    /// More iterations of one invocation than the driver carries out.
    #[error(
        "{found} iterations of one invocation, more than the {limit} that {{adapter}} carries out; realize a part of the graph first"
    )]
    Iterations {
        /// Needed.
        found: u64,
        /// The driver's limit.
        limit: u64,
    },
    /// More memory in one buffer than the device allocates.
    #[error("{bytes} bytes in one buffer, more than the {limit} that {{adapter}} allocates at once")]
    Buffer {
        /// Needed.
        bytes: u64,
        /// The device's limit.
        limit: u64,
    },
    /// More workgroups than one launch has.
    #[error("{found} workgroups, more than the {limit} that {{adapter}} launches at once")]
    Groups {
        /// Needed.
        found: u64,
        /// The device's limit.
        limit: u64,
    },
    /// Work that only a template does, on a device that has none.
    #[error(
        "{0} in one kernel, for which {{adapter}} has no template; planned for it, it is several kernels"
    )]
    Template(&'static str),
    /// More elements than 32-bit addresses reach.
    #[error("{0} elements in one buffer, more than 32-bit addresses reach")]
    Elements(usize),
}
