//! The rules of this repository: its documents, its layers, its examples.

mod documented;
mod documents;
mod layers;
mod readme;
