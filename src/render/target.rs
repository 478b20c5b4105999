//! What a renderer knows of the device.

use crate::render::choice::TemplateChoice;
use crate::render::thresholds::{SOFTWARE_COMPILE_BOUND_ELEMENTS, SOFTWARE_MAX_ITERATIONS};

/// The kinds of adapter, which like kernels of different shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adapter {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A software driver (lavapipe): it runs shaders on the host's processor.
    Software,
}

/// What a renderer may use, and what it must keep to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GpuTarget {
    /// The kind of adapter.
    pub adapter: Adapter,
    /// Whether there are 64-bit integers; else those of WGSL are pairs of words.
    pub int64: bool,
    /// Whether there are 64-bit floats.
    pub float64: bool,
    /// Invocations of a subgroup, where shaders can exchange values within it
    /// and all subgroups are of one size; else 0.
    pub subgroup: u32,
    /// Rows and columns of the matrices of 16-bit floats that a subgroup multiplies
    /// together, with sums of 32 bits: 8 or 16, where there are such.
    pub matrix: Option<u32>,
    /// What a kernel gets from its template, if it suits it, instead of what the table
    /// has first.
    pub choice: Option<TemplateChoice>,
    /// What CUDA's templates need to know of the device, if it is one of CUDA.
    pub cuda: Option<CudaFeatures>,
    /// Elements (or thousands of multiplications) so few that a kernel of them
    /// is kept short, since compiling it takes longer than running it.
    pub compile_bound_elements: usize,
    /// Whether one access moves eight 16-bit elements.
    pub vec8_halves: bool,
    /// Whether a buffer that a shader writes is bound for nothing else, and one that it reads only for reading:
    /// WebGPU's rule.
    pub separate_buffers: bool,
    /// Inputs start at multiples of this many elements: 8, 4 or 1.
    pub alignment: usize,
    /// Invocations in a workgroup, at most.
    pub max_workgroup: u32,
    /// Bytes of memory that a workgroup shares, at most.
    pub workgroup_bytes: u32,
    /// Storage buffers that one shader binds, at most.
    pub max_buffers: usize,
    /// Bytes that one binding shows, at most.
    pub max_binding: u64,
    /// Bytes in one buffer, at most.
    pub max_buffer: u64,
    /// Workgroups along one dimension of a launch, at most.
    pub max_groups: u32,
    /// Iterations of one invocation, counted over all its loops, at most.
    pub max_iterations: u64,
}

/// What CUDA's templates need to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaFeatures {
    /// Compute capability: major, minor. At least 8.0.
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Whether operands are copied by TMA, with tensor maps, where a tile can.
    pub tensor_maps: bool,
}

impl CudaFeatures {
    /// Bytes of shared memory that a block may ask for, as the programming guide's
    /// table of compute capabilities says.
    pub fn shared_bytes(&self) -> usize {
        match self.compute_capability {
            (8, 0 | 7) => 163 << 10,
            (9..=11, _) => 227 << 10,
            _ => 99 << 10,
        }
    }
}

impl GpuTarget {
    /// Of the ways that suit a kernel, the one that was chosen for it, else the first.
    pub fn chosen<T: Copy>(&self, suitable: &[T], choice: impl Fn(T) -> TemplateChoice) -> Option<T> {
        let wanted = suitable.iter().find(|&&way| self.choice == Some(choice(way)));
        wanted.or(suitable.first()).copied()
    }

    /// What every WebGPU implementation offers, browsers among them, as a
    /// discrete GPU.
    pub fn webgpu_default() -> GpuTarget {
        GpuTarget {
            adapter: Adapter::Discrete,
            int64: false,
            float64: false,
            subgroup: 0,
            matrix: None,
            choice: None,
            cuda: None,
            compile_bound_elements: 0,
            vec8_halves: false,
            separate_buffers: false,
            alignment: 8,
            max_workgroup: 256,
            workgroup_bytes: 16 << 10,
            max_buffers: 8,
            max_binding: 128 << 20,
            max_buffer: 256 << 20,
            max_groups: 65_535,
            max_iterations: u64::MAX,
        }
    }

    /// What devices older than WebGPU offer through wgpu, GLES 3.1's for one:
    /// half as many buffers at once.
    pub fn downlevel() -> GpuTarget {
        GpuTarget { max_buffers: 4, workgroup_bytes: 16_352, ..GpuTarget::webgpu_default() }
    }

    /// The CUDA device that every other can stand in for: of compute capability
    /// 8.0, with as many multiprocessors as the first such.
    pub fn cuda() -> GpuTarget {
        GpuTarget::cuda_device((8, 0), 108)
    }

    /// A CUDA device of a compute capability, 8.0 or later.
    pub fn cuda_device(compute_capability: (u32, u32), multiprocessors: usize) -> GpuTarget {
        GpuTarget {
            adapter: Adapter::Discrete,
            int64: true,
            float64: true,
            subgroup: 0,
            matrix: None,
            choice: None,
            cuda: Some(CudaFeatures { compute_capability, multiprocessors, tensor_maps: true }),
            compile_bound_elements: 0,
            vec8_halves: true,
            separate_buffers: false,
            alignment: 8,
            max_workgroup: 1024,
            workgroup_bytes: 48 << 10,
            // Pointers in the 4 KB that a launch's parameters may take.
            max_buffers: 256,
            max_binding: u64::MAX,
            max_buffer: u64::MAX,
            max_groups: i32::MAX as u32,
            max_iterations: u64::MAX,
        }
    }

    /// Mesa's software driver: the adapter that is there without a GPU, and
    /// the one that goldens are rendered for.
    pub fn software() -> GpuTarget {
        GpuTarget {
            adapter: Adapter::Software,
            int64: true,
            float64: true,
            subgroup: 8,
            matrix: None,
            choice: None,
            cuda: None,
            compile_bound_elements: SOFTWARE_COMPILE_BOUND_ELEMENTS,
            vec8_halves: false,
            separate_buffers: false,
            alignment: 8,
            max_workgroup: 1024,
            workgroup_bytes: 32 << 10,
            max_buffers: 32,
            max_binding: 128 << 20,
            max_buffer: i32::MAX as u64,
            max_groups: 65_535,
            max_iterations: SOFTWARE_MAX_ITERATIONS,
        }
    }
}
