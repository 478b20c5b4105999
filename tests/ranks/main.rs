//! Ranks: groups, collectives, and models on several devices at once.

mod ddp;
mod dist;
mod divided;
#[cfg(feature = "nccl")]
mod nccl;
