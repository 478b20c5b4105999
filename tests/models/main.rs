//! Layers and models: what they hold, compute and generate.

mod batches;
mod beams;
mod generation;
mod layer_gradients;
mod nn;
mod nn_recorded;
mod quantized;
mod quantized_cache;
mod speculation;
mod token_kernels;
