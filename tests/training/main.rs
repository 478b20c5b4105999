//! Training: data, steps, optimizers, checkpoints, the trainer.

#[path = "../support/adapter.rs"]
mod adapter;
mod checkpoint;
mod dashboard;
mod data;
mod grad_scaler;
#[cfg(feature = "safetensors")]
mod io;
mod optim;
mod packed;
mod reports;
mod samplers;
mod steps;
mod train;
