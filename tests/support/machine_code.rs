//! NVIDIA's compiler, which needs no GPU, on kernels as CUDA C.

use std::sync::LazyLock;

use kiln::unstable::kernel::Workload;
use kiln::unstable::render::{GpuTarget, cuda};
use kiln::unstable::runtime::cuda::nvrtc;

/// The generations: Ampere, Hopper, Blackwell.
const GENERATIONS: [&str; 3] = ["80", "90", "120"];

/// Whether the compiler is there; the simulated device's makes no machine code,
/// and does not count.
pub fn is_there() -> bool {
    static FOUND: LazyLock<Result<(), String>> = LazyLock::new(|| {
        let empty = format!("extern \"C\" __global__ void {}() {{}}", cuda::ENTRY);
        match nvrtc::cubin(&empty, GENERATIONS[0])?.code.starts_with(b"\x7fELF") {
            true => Ok(()),
            false => Err("libnvrtc is the simulated device's".into()),
        }
    });
    if let Err(reason) = &*FOUND {
        let required =
            std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "nvrtc"));
        assert!(!required, "KILN_REQUIRE asks for nvrtc: {reason}");
        println!("skipped: {reason}");
    }
    FOUND.is_ok()
}

/// Compiles the passes of some work, each for one generation, so that all have their share; registers
/// spilled to memory are an error. Gives how many passes there were.
///
/// # Errors
/// What the renderer or the compiler said, with the text.
pub fn compile(work: &Workload) -> Result<usize, String> {
    let shader = cuda::render_work(work, &GpuTarget::cuda()).map_err(|reason| reason.to_string())?;
    let passes: Vec<_> = shader.iter().flat_map(|shader| &shader.passes).collect();
    for pass in &passes {
        let sum = pass.source.bytes().map(usize::from).sum::<usize>();
        let arch = GENERATIONS[sum % GENERATIONS.len()];
        nvrtc::cubin(&cuda::translation_unit(&pass.source), arch)
            .and_then(nvrtc::Cubin::unspilled)
            .map_err(|message| format!("sm_{arch}: {message}\n{}", pass.source))?;
    }
    Ok(passes.len())
}
