//! A user's kernel, which runs on the host.

use std::sync::Arc;

use crate::base::Result;
use crate::ir::{Custom, Type};
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};
use crate::runtime::wgpu::memory::allocate_to_fill;
use crate::runtime::wgpu::reports::WgpuReports;
use crate::runtime::{Bindings, Program};

/// Reads the operands, runs the kernel on the host, and writes the results.
#[derive(Debug)]
pub struct WgpuHostProgram {
    /// The device.
    pub gpu: Arc<WgpuGpu>,
    /// Where kernels before it report bad indices.
    pub reports: Arc<WgpuReports>,
    /// The kernel.
    pub custom: Arc<dyn Custom>,
    /// Types of the operands.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub outputs: Vec<Type>,
}

impl Program for WgpuHostProgram {
    fn source(&self) -> String {
        format!("custom {}, on the host", self.custom.name())
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let mut operands = Vec::new();
        for (binding, ty) in bindings.inputs.iter().zip(&self.inputs) {
            let block = lock(&self.gpu.blocks).get(binding.buffer)?;
            let mut bytes = vec![0; ty.bytes()];
            if !bytes.is_empty() {
                self.gpu.read(&self.reports, &block, binding.offset as u64, &mut bytes)?;
            }
            operands.push(bytes);
        }
        let mut results: Vec<Vec<u8>> = self.outputs.iter().map(|ty| vec![0; ty.bytes()]).collect();
        let slices: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let mut out: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        let run = self.custom.run_cpu(&slices, &mut out);
        run.map_err(|message| self.gpu.error(self.custom.name(), message))?;
        for (binding, bytes) in bindings.outputs.iter().zip(&results).filter(|(_, bytes)| !bytes.is_empty()) {
            let staged = allocate_to_fill(&self.gpu, bytes.len())?;
            let from = lock(&self.gpu.blocks).get(&staged)?;
            let to = lock(&self.gpu.blocks).get(binding.buffer)?;
            self.gpu.write((&from, 0), bytes)?;
            // Outputs start at multiples of 256 and nothing lies in the gaps.
            let padded = bytes.len().next_multiple_of(4) as u64;
            self.gpu.record_copy((&from, 0), (&to, binding.offset as u64), padded)?;
        }
        Ok(())
    }
}
