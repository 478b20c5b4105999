//! The manifest: which calls were recorded, and how near a result must come.

use std::collections::HashMap;
use std::path::Path;

use kiln::DType;
use serde_json::Value;

use super::arg::{self, Arg};

/// A relative and an absolute tolerance, as `torch.allclose` takes them.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Times the magnitude of the expected element.
    pub relative: f64,
    /// Added to that.
    pub absolute: f64,
}

/// The largest errors of PyTorch's own kernel on one case.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Largest difference from the exact result.
    pub absolute: f64,
    /// Largest difference over the exact result's magnitude.
    pub relative: f64,
}

/// A folder's manifest.
pub struct Manifest {
    /// PyTorch's tolerance for each floating-point type.
    pub tolerances: HashMap<DType, Tolerance>,
    /// The operations, as the manifest orders them.
    pub ops: Vec<Op>,
}

/// One operation's cases.
pub struct Op {
    /// The name under which it is reported (`max.binary`).
    pub name: String,
    /// What is called (`max`).
    pub call: String,
    /// The file with its tensors.
    pub file: String,
    /// PyTorch's own exceptions for this operation, by the case's type.
    pub tolerances: HashMap<DType, Tolerance>,
    /// Calls with expected results.
    pub cases: Vec<Case>,
    /// Calls that must be rejected.
    pub refusals: Vec<Refusal>,
}

/// One call with its expected results.
pub struct Case {
    /// Number in the names of its tensors (`c<number>.i0`).
    pub number: u64,
    /// The type under which PyTorch's tests list the case.
    pub dtype: Option<DType>,
    /// Positional arguments.
    pub args: Vec<Arg>,
    /// Keyword arguments.
    pub keywords: Vec<(String, Arg)>,
    /// How many tensors the call returns.
    pub outputs: usize,
    /// The error of PyTorch's kernel in the forward pass.
    pub recorded: Option<Recorded>,
    /// Inputs that have an expected gradient; empty if there is none.
    pub gradients: Vec<usize>,
    /// The error of PyTorch's kernel in those gradients.
    pub recorded_gradients: Option<Recorded>,
    /// Element strides of the inputs that are not contiguous.
    pub strides: HashMap<usize, Vec<usize>>,
    /// Whether an input or an output is complex, its last axis of 2 holding
    /// the real and the imaginary part.
    pub complex: bool,
    /// Whether PyTorch's answer is its choice among several (a tie, an overflow inside
    /// its own formula): such cases are reported apart.
    pub convention: bool,
}

/// A call that must be rejected.
pub struct Refusal {
    /// Positional arguments.
    pub args: Vec<Arg>,
    /// Keyword arguments.
    pub keywords: Vec<(String, Arg)>,
    /// Types and shapes of the inputs, whose values do not matter.
    pub inputs: Vec<(Option<DType>, Vec<usize>)>,
    /// What PyTorch said.
    pub message: String,
}

/// Reads `manifest.json` in `folder`.
///
/// # Errors
/// What is wrong with the file.
pub fn read(folder: &Path) -> Result<Manifest, String> {
    let path = folder.join("manifest.json");
    let context = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| context(error.to_string()))?;
    parse(&text).map_err(context)
}

/// Reads a manifest's text.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Manifest, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    manifest(&root)
}

fn manifest(root: &Value) -> Result<Manifest, String> {
    if root["format"].as_u64() != Some(1) {
        return Err(format!("format {}, expected 1", root["format"]));
    }
    let ops = root["ops"].as_object().ok_or("no ops")?;
    Ok(Manifest {
        tolerances: tolerances(&root["default_tol_rtol_atol"]),
        ops: ops.iter().map(|(name, entry)| op(name, entry)).collect::<Result<_, _>>()?,
    })
}

fn op(name: &str, entry: &Value) -> Result<Op, String> {
    let context = |error: String| format!("{name}: {error}");
    let each = |key: &str| entry[key].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Op {
        name: name.to_string(),
        call: entry["call"].as_str().unwrap_or(name).to_string(),
        file: entry["file"].as_str().ok_or_else(|| context("no file".into()))?.to_string(),
        tolerances: tolerances(&entry["torch_tol"]),
        cases: each("cases").iter().map(|c| case(c).map_err(context)).collect::<Result<_, _>>()?,
        refusals: each("errors").iter().map(|e| refusal(e).map_err(context)).collect::<Result<_, _>>()?,
    })
}

fn case(entry: &Value) -> Result<Case, String> {
    let number = entry["n"].as_u64().ok_or("a case without a number")?;
    Ok(Case {
        number,
        dtype: entry["dt"].as_str().and_then(arg::dtype),
        args: positional(entry)?,
        keywords: keywords(entry),
        outputs: entry["out"].as_array().map_or(0, Vec::len),
        recorded: recorded(&entry["err"]),
        gradients: integers(&entry["grad"]),
        recorded_gradients: recorded(&entry["gerr"]),
        strides: strides(&entry["nc"])?,
        complex: entry.get("cplx").is_some(),
        convention: entry.get("convention").is_some(),
    })
}

fn refusal(entry: &Value) -> Result<Refusal, String> {
    let inputs = entry["in"].as_array().ok_or("an error without inputs")?;
    let input = |i: &Value| (i[0].as_str().and_then(arg::dtype), integers(&i[1]));
    Ok(Refusal {
        args: positional(entry)?,
        keywords: keywords(entry),
        inputs: inputs.iter().map(input).collect(),
        message: entry["match"].as_str().or(entry["error"].as_str()).unwrap_or_default().to_string(),
    })
}

fn positional(entry: &Value) -> Result<Vec<Arg>, String> {
    Ok(entry["args"].as_array().ok_or("a call without arguments")?.iter().map(arg::decode).collect())
}

fn keywords(entry: &Value) -> Vec<(String, Arg)> {
    let fields = entry["kw"].as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), arg::decode(value))).collect()
}

fn strides(entry: &Value) -> Result<HashMap<usize, Vec<usize>>, String> {
    let Some(fields) = entry.as_object() else { return Ok(HashMap::new()) };
    let input = |key: &String| key.parse().map_err(|_| format!("strides of input {key}"));
    fields.iter().map(|(key, value)| Ok((input(key)?, integers(value)))).collect()
}

fn tolerances(entry: &Value) -> HashMap<DType, Tolerance> {
    let fields = entry.as_object().into_iter().flatten();
    let known = fields.filter_map(|(name, pair)| {
        Some((arg::dtype(name)?, Tolerance { relative: pair[0].as_f64()?, absolute: pair[1].as_f64()? }))
    });
    known.collect()
}

fn recorded(entry: &Value) -> Option<Recorded> {
    Some(Recorded { absolute: entry[0].as_f64()?, relative: entry[1].as_f64()? })
}

fn integers(entry: &Value) -> Vec<usize> {
    entry.as_array().into_iter().flatten().filter_map(|n| Some(n.as_u64()? as usize)).collect()
}
