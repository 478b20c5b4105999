//! Scatters whose updates warps or parts share, against loops over the updates.

use crate::Tensor;
use crate::base::{DType, Device, Error};
use crate::render::{GpuTarget, cuda};
use crate::runtime::cuda::tests::device;
use crate::tensor::scatter::ScatterReduce;

const ROWS: usize = 700;
const COLUMNS: usize = 40;
const ELEMENTS: usize = 90;

/// Numbers whose sum depends on their order.
fn values(count: usize) -> Vec<f32> {
    let number = |i: usize| match i % 3 {
        0 => 1e8,
        1 => (i % 101) as f32 + 0.5,
        _ => -1e8 + (i % 7) as f32 * 64.0,
    };
    (0..count).map(number).collect()
}

fn element(row: usize, column: usize) -> usize {
    (row * 37 + row / 11 + column * 5) % ELEMENTS
}

fn on_device<T: crate::base::Element>(values: Vec<T>, shape: &[usize]) -> Tensor {
    Tensor::from_vec(values, shape, Device::cuda(0))
}

#[test]
fn updates_keep_their_order_where_warps_own_rows() {
    if device().is_none() {
        return;
    }
    let x = values(ROWS * COLUMNS);
    let mut want = vec![0.0f32; ELEMENTS * COLUMNS];
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            want[element(row, 0) * COLUMNS + column] += x[row * COLUMNS + column];
        }
    }
    let index = on_device((0..ROWS).map(|row| element(row, 0) as i64).collect(), &[ROWS]);
    let zeros = Tensor::zeros([ELEMENTS, COLUMNS], Device::cuda(0));
    let have = zeros.index_add(0, &index, &on_device(x, &[ROWS, COLUMNS]), 1.0);
    assert!(have.to_vec::<f32>().expect("sums") == want, "sums in another order, or of other rows");
}

#[test]
fn the_last_update_stays_where_every_point_has_its_own_index() {
    if device().is_none() {
        return;
    }
    let x: Vec<f32> = (0..ROWS * COLUMNS).map(|i| i as f32).collect();
    let mut want = vec![-1.0f32; ELEMENTS * COLUMNS];
    let mut index = Vec::new();
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            want[element(row, column) * COLUMNS + column] = x[row * COLUMNS + column];
            index.push(element(row, column) as i64);
        }
    }
    let base = Tensor::full([ELEMENTS, COLUMNS], -1.0, Device::cuda(0));
    let have = base.scatter(0, &on_device(index, &[ROWS, COLUMNS]), on_device(x, &[ROWS, COLUMNS]));
    assert_eq!(have.to_vec::<f32>().expect("values"), want);
}

#[test]
fn an_index_out_of_range_is_reported_and_others_are_not_lost() {
    if device().is_none() {
        return;
    }
    let index =
        on_device((0..ROWS).map(|row| if row == 333 { 4711 } else { 0 }).collect::<Vec<i64>>(), &[ROWS]);
    let ones = Tensor::ones([ROWS], Device::cuda(0));
    let result = Tensor::zeros([ELEMENTS], Device::cuda(0)).index_add(0, &index, &ones, 1.0).to_vec::<f32>();
    let Err(error) = result else { panic!("4711 among {ELEMENTS}") };
    assert!(matches!(error, Error::IndexOutOfRange { .. }), "{error}");
    assert!(error.to_string().contains("4711"), "{error}");
}

/// What counts into few elements does so in copies, each of thousands of updates.
#[test]
fn many_updates_of_few_elements_are_made_by_parts() {
    const UPDATES: usize = 1 << 15;
    let count = |device: Device| {
        let x = Tensor::arange(0, UPDATES as i64, 1, device);
        let index = (&x * 7919).remainder(5);
        let x = (&x.remainder(13) - 6).to_dtype(DType::F32) * 0.125;
        [ScatterReduce::Sum, ScatterReduce::Amax, ScatterReduce::Amin]
            .map(|how| Tensor::full([5], 0.5, device).scatter_reduce(0, &index, &x, how, true))
    };
    for tensor in count(Device::null()) {
        let report = tensor.plan().expect("a plan");
        let kernel = report.kernels.last().expect("kernels");
        let shader = cuda::render_work(kernel.work(), &GpuTarget::cuda()).expect("a text");
        assert_eq!(shader.expect("no work of a user's").passes.len(), 4);
    }
    if device().is_none() {
        return;
    }
    for (there, here) in count(Device::cuda(0)).iter().zip(count(Device::cpu())) {
        assert_eq!(there.to_vec::<f32>().expect("counts"), here.to_vec::<f32>().expect("counts"));
    }
}

/// What joins all results of long rows runs apart from the rows: one point would have one
/// block compute them all.
#[test]
fn a_total_of_rows_that_are_reduced_first_is_a_pass_of_its_own() {
    let loss = |device: Device| {
        let x: Vec<f32> = (0..64 * 1024).map(|i| (i % 97) as f32 * 0.01).collect();
        let x = Tensor::from_vec(x, [64, 1024], device);
        x.realize().expect("a leaf");
        x.logsumexp(1).sum(..)
    };
    let report = loss(Device::null()).plan().expect("a plan");
    let kernel = report.kernels.last().expect("kernels");
    let shader = cuda::render_work(kernel.work(), &GpuTarget::cuda()).expect("a text");
    let passes = shader.expect("no work of a user's").passes;
    assert!(passes.len() > 1, "{} passes", passes.len());
    assert!(passes.iter().any(|pass| pass.workgroups >= 64), "one block for 64 rows");
    if device().is_none() {
        return;
    }
    let (there, here) = (loss(Device::cuda(0)).item::<f32>(), loss(Device::cpu()).item::<f32>());
    let (there, here) = (there.expect("a loss"), here.expect("a loss"));
    assert!((there - here).abs() <= 1e-5 * here.abs(), "{there} instead of {here}");
}
