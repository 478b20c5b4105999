//! Products of one row in one dispatch.

use std::sync::Arc;

use super::{device, eager, taken_for_a_gpu};
use crate::base::{DType, Device};
use crate::plan::tests::joint::Joint;

const DTYPES: &[DType] = &[DType::F32, DType::BF16, DType::F16];

#[test]
fn products_of_one_row_are_one_dispatch() {
    if device().is_some() {
        Joint::on(Device::wgpu(0)).check(DTYPES, 6);
    }
}

#[test]
fn products_of_one_row_are_one_dispatch_by_the_templates_of_every_class() {
    for backend in [eager(), taken_for_a_gpu()].into_iter().flatten() {
        Joint::with(Arc::new(backend)).check(DTYPES, 6);
    }
}
