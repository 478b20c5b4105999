//! Linear systems.

use crate::tensor::Tensor;
use crate::tensor::compose::{Checked, Site};

/// The inverse of square matrices.
pub(crate) fn inverse(site: Site, x: &Tensor) -> Checked<Tensor> {
    Err(site.mistake("an operation this version has", "inverse", &[x]))
}
