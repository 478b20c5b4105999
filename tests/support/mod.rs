//! What several test programs share.
// Each test program uses a part of it.
#![allow(dead_code)]

pub mod adapter;
pub mod agreement;
pub mod broken;
pub mod census;
pub mod comparison;
pub mod device;
pub mod random_graph;
pub mod random_leaf;
mod random_moves;
pub mod random_steps;
mod random_structure;
