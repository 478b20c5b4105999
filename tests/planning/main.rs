//! What becomes a plan, and where and when it runs.

#[path = "../support/adapter.rs"]
mod adapter;
mod asynchronous;
mod budget;
mod chain;
mod devices;
mod lines;
mod plan;
mod report;
mod sizes;
mod threads;
mod transfers;
#[path = "../support/watched.rs"]
mod watched;
