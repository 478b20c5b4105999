//! What a renderer gives: texts, and what a launch must know.

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
    pub groups: u64,
    /// Invocations of a workgroup.
    pub workgroup: u32,
    /// What each launch after the first adds to the word [`FIRST`], and the
    /// word's end. One launch if they are equal.
    pub chunk: u32,
    /// See `chunk`.
    pub chunks_end: u32,
    /// The storage buffers, from binding 1 on; binding 0 is the uniform
    /// block of launch words.
    pub slots: Vec<Slot>,
    /// Words of the uniform block: a multiple of 4.
    pub words: usize,
    /// Inputs that are read by fours, and so must start at a multiple of
    /// four elements.
    pub fours: Vec<usize>,
    /// Inputs that are read by eights.
    pub eights: Vec<usize>,
    /// Inputs that are copied by pieces of 16 bytes, and so must start at a
    /// multiple of them.
    pub pieces: Vec<usize>,
    /// Bytes of shared memory that a launch asks for, besides what the text declares.
    pub shared_bytes: u32,
    /// Inputs that the device copies by descriptions, in the order of the function's
    /// last parameters.
    pub described: Vec<Described>,
}

/// Matrices of 16-bit elements that a device copies to shared memory by a description
/// that a launch gets (CUDA's tensor maps).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Where they are.
    pub memory: Memory,
    /// Bytes before the first element.
    pub start: usize,
    /// Elements of a line, lines of a matrix, matrices.
    pub extents: [usize; 3],
    /// Bytes from a line to the next, and from a matrix to the next.
    pub strides: [usize; 2],
    /// Elements and lines that are copied together.
    pub piece: [usize; 2],
}

impl Pass {
    /// The text, without marks.
    pub fn text(&self) -> String {
        crate::render::wgsl::sized::plain(&self.source)
    }
}

/// A storage buffer that a pass binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The memory.
    pub memory: Memory,
    /// Bytes from the start of the memory to the start of the binding.
    pub start: u64,
}

/// Memory that a pass uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Where indices out of range are reported.
    Status,
    /// An input of the launch.
    Input(usize),
    /// An output of the launch.
    Output(usize),
    /// A block of [`Shader::scratch`].
    Scratch(usize),
}

impl Memory {
    /// The number of the launch's input, if it is one.
    pub fn input(self) -> Option<usize> {
        if let Memory::Input(number) = self { Some(number) } else { None }
    }
}

// The launch words. Word 0 is always 0, which no compiler knows: numbers
// combined with it bitwise stay what they are, and algebra that holds only for
// ordinary numbers finds no pattern to work on.

/// The launch word that holds where the launch reports: a number of four words.
pub const LAUNCH: usize = 1;
/// The launch word that holds the first position of a chunk.
pub const FIRST: usize = 2;
/// The first of the words that hold each input's element offset.
pub const OFFSETS: usize = 4;

/// The first of the two words of a scalar argument.
pub const fn argument_word(inputs: usize, argument: usize) -> usize {
    OFFSETS + inputs + 2 * argument
}

/// The words of the uniform block, for so many inputs and arguments.
pub const fn block_words(inputs: usize, arguments: usize) -> usize {
    argument_word(inputs, arguments).next_multiple_of(4)
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
