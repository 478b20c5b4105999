//! What a template leaves open: of several sizes that suit a kernel, in which it runs.

use crate::render::cuda::tiles;
use crate::render::{attention, cuda, product};

/// One of the ways in which a template computes a kernel. Each template lists those that
/// suit a kernel on a device, the one expected to be fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateChoice {
    /// The tile of a contraction in WGSL.
    Product(product::WgslProductTile),
    /// The tile of a contraction in CUDA C.
    CudaProduct(tiles::CudaProductTile),
    /// The block of an attention in WGSL.
    Attention(attention::WgslAttentionTile),
    /// The block of an attention, or of one of its gradients, in CUDA C.
    CudaAttention(cuda::attention::CudaAttentionTile),
    /// No template's: the rows and columns of an invocation's tile of a contraction.
    Invocation([usize; 2]),
}
