//! Products of one row in one launch.

use super::device;
use crate::base::{DType, Device};
use crate::plan::tests::joint::Joint;

#[test]
fn products_of_one_row_are_one_launch() {
    if device().is_some() {
        Joint::on(Device::cuda(0)).check(&[DType::F32, DType::BF16], 8);
    }
}
