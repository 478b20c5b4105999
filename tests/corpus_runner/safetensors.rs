//! Reading `.safetensors` files: a JSON header of known length, then the data.

use std::collections::HashMap;
use std::path::Path;

use kiln::DType;
use serde_json::Value;

use super::array::Array;

/// The arrays of one file, by name.
///
/// # Errors
/// What is wrong with the file.
pub fn read(path: &Path) -> Result<HashMap<String, Array>, String> {
    let content = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&content).ok_or_else(|| format!("{}: not a safetensors file", path.display()))
}

/// The arrays of a file's content, by name; `None` if it is no such file.
pub fn parse(content: &[u8]) -> Option<HashMap<String, Array>> {
    let (length, rest) = content.split_first_chunk::<8>()?;
    let (header, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let header: Value = serde_json::from_slice(header).ok()?;
    let entries = header.as_object()?.iter().filter(|(name, _)| *name != "__metadata__");
    entries.map(|(name, entry)| Some((name.clone(), array(entry, data)?))).collect()
}

fn array(entry: &Value, data: &[u8]) -> Option<Array> {
    let integers = |key: &str| -> Option<Vec<usize>> {
        entry[key].as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
    };
    let offsets = integers("data_offsets")?;
    let bytes = data.get(*offsets.first()?..*offsets.get(1)?)?.to_vec();
    Some(Array { dtype: dtype(entry["dtype"].as_str()?)?, shape: integers("shape")?, bytes })
}

fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "F64" => DType::F64,
        "F32" => DType::F32,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        "I64" => DType::I64,
        "I32" => DType::I32,
        "U32" => DType::U32,
        "U8" => DType::U8,
        "BOOL" => DType::Bool,
        _ => return None,
    })
}
