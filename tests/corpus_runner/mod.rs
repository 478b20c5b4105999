//! The conformance runner: recorded PyTorch calls, replayed on kiln.
//!
//! A folder holds a `manifest.json` and one `.safetensors` file per operation.
//! `manifest` and `safetensors` read it, `ops` maps each call to kiln, `run`
//! runs the cases, `compare` judges them, `report` counts them.

pub mod arg;
pub mod array;
pub mod call;
pub mod compare;
pub mod manifest;
pub mod ops;
pub mod report;
pub mod run;
pub mod safetensors;
pub mod target;
