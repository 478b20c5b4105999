//! The types of results against PyTorch's, for the operations of the corpus, as recorded by
//! `tests/autocast/record.py`.

use std::path::{Path, PathBuf};

use kiln::prelude::*;
use kiln::with_autocast;
use serde_json::Value;

use crate::corpus_runner::call::Stop;
use crate::corpus_runner::manifest::{self, Op};
use crate::corpus_runner::target::Target;
use crate::corpus_runner::{arg, run};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Operations whose types differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("__rdiv__", "a division, not a reciprocal times a number"),
    ("einsum", "the recorded call is a sum without a product"),
    ("cov", "differences of large numbers stay in f32; PyTorch's product of them is in 16 bits"),
    ("corrcoef", "as cov"),
    ("nn.functional.pad.reflect", "a copy loses nothing in 16 bits"),
    ("nn.functional.pad.replicate", "a copy loses nothing in 16 bits"),
    ("fft.irfft", "computed in f32, and given in the type of what it is of"),
];

/// The types that an operation gives, by commas.
fn found(op: &Op, case: u64, device: Device, low: bool) -> Result<String, Stop> {
    let case = op.cases.iter().find(|known| known.number == case).expect("a recorded case");
    let change = |x: Tensor| if low && x.dtype() == DType::F32 { x.to_dtype(DType::BF16) } else { x };
    let call =
        || pollster::block_on(run::outputs(op, case, &folder("corpus"), Target::Device(device), change));
    let outputs = with_autocast(DType::BF16, call)?;
    outputs.iter().try_for_each(Tensor::check).map_err(Stop::Refused)?;
    Ok(outputs.iter().map(|output| format!("{}", output.dtype())).collect::<Vec<_>>().join(","))
}

/// The meta device stands for GPUs.
#[test]
fn types_are_pytorchs() {
    let text = std::fs::read_to_string(folder("autocast").join("recorded.json")).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let manifest = manifest::read(&folder("corpus")).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for op in &manifest.ops {
        let Some(expected) = recorded["ops"].get(&op.name) else { continue };
        for (kind, device) in [("cpu", Device::cpu()), ("cuda", Device::meta())] {
            for (at, low) in [false, true].into_iter().enumerate() {
                let Some(types) = expected[kind][at].as_str() else { continue };
                let types =
                    types.split(',').map(|name| arg::dtype(name).map_or(name.into(), |t| t.to_string()));
                let expected: String = types.collect::<Vec<String>>().join(",");
                match found(op, recorded["ops"][&op.name]["case"].as_u64().unwrap(), device, low) {
                    Ok(found) if found == expected => compared += 1,
                    Ok(found) => wrong.push(format!("{} {kind} {low}: {found}, PyTorch {expected}", op.name)),
                    Err(Stop::Refused(error)) => {
                        wrong.push(format!("{} {kind} {low}: {error}, PyTorch {expected}", op.name));
                    }
                    Err(Stop::Unsupported(_) | Stop::Inexpressible(_)) => {}
                }
            }
        }
    }
    let is_known = |line: &String| DIFFERENT.iter().any(|(name, _)| line.split(' ').next() == Some(*name));
    for (name, why) in DIFFERENT {
        assert!(wrong.iter().any(|line| line.starts_with(name)), "{name} does not differ: {why}");
    }
    wrong.retain(|line| !is_known(line));
    assert!(wrong.is_empty(), "{compared} agree; {} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1300, "{compared}");
}
