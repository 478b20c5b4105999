//! What a device is, for people and for programs that choose one.

use std::fmt;

use crate::base::DType;
use crate::runtime::Capabilities;

/// What a device is. Prints one line a property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The product's name.
    pub name: String,
    /// The instruction set or compute capability.
    pub capability: String,
    /// The driver and its version.
    pub driver: String,
    /// Independent workers: cores, multiprocessors, compute units.
    pub compute_units: usize,
    /// Bytes of memory in all, where the driver says.
    pub total_memory: Option<u64>,
    /// Buffers that one kernel may bind.
    pub max_bindings: usize,
    /// Bytes of a row that stay on chip between the stages of a kernel.
    pub row_bytes: usize,
    /// The element types it computes with.
    pub dtypes: Vec<DType>,
    /// Whether it only stands in for a device: a virtual one, or an adapter
    /// that the host processor emulates.
    pub simulated: bool,
}

impl Properties {
    /// What the capabilities tell.
    pub fn of(capabilities: &Capabilities) -> Properties {
        let has = |dtype: &DType| !capabilities.missing.contains(dtype);
        Properties {
            compute_units: capabilities.workers,
            max_bindings: capabilities.max_bindings,
            row_bytes: capabilities.row_bytes,
            dtypes: DType::ALL.into_iter().filter(has).collect(),
            ..Properties::default()
        }
    }
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = |text: &str| if text.is_empty() { "not known".to_string() } else { text.to_string() };
        let memory = self.total_memory.map_or("not known".into(), |bytes| format!("{bytes} bytes"));
        let types: Vec<String> = self.dtypes.iter().map(DType::to_string).collect();
        writeln!(f, "name           {}", unknown(&self.name))?;
        writeln!(f, "capability     {}", unknown(&self.capability))?;
        writeln!(f, "driver         {}", unknown(&self.driver))?;
        writeln!(f, "compute units  {}", self.compute_units)?;
        writeln!(f, "memory         {memory}")?;
        writeln!(f, "bindings       {} a kernel", self.max_bindings)?;
        writeln!(f, "row on chip    {} bytes", self.row_bytes)?;
        write!(f, "types          {}", types.join(" "))
    }
}
