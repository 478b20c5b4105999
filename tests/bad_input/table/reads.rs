//! Reading as what a tensor is not.

use kiln::Tensor;
use kiln::{DType, Device, Element};

use super::Tally;

const TYPES: [DType; 9] = [
    DType::Bool,
    DType::U8,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

pub fn run(tally: &mut Tally) {
    another_type::<bool>(tally);
    another_type::<u8>(tally);
    another_type::<i32>(tally);
    another_type::<u32>(tally);
    another_type::<i64>(tally);
    another_type::<f32>(tally);
    another_type::<f64>(tally);
    for dtype in TYPES {
        let away = Tensor::ones([2], (Device::meta(), dtype));
        tally.row(format!("to_vec of {dtype} on meta"), || away.to_vec::<f32>());
        tally.row(format!("realize of {dtype} on meta"), || away.realize().map(|_| ()));
        tally.row(format!("to_text of {dtype} on meta"), || away.to_text());
        tally.row(format!("nonzero of {dtype} on meta"), || away.nonzero());
        tally.row(format!("item of two {dtype}"), || Tensor::ones([2], dtype).item::<f64>());
    }
    for shape in [vec![], vec![2], vec![2, 3], vec![1, 2, 3, 4]] {
        let x = Tensor::ones(shape.clone(), ());
        let rank = shape.len();
        tally.row("dims of another rank", || x.dims::<3>());
        tally.row("dims of another rank", || x.dims::<5>());
        tally.row("an axis that there is not", || x.dim(rank as i64));
        tally.row("an axis that there is not", || x.dim(i64::MIN));
    }
    for values in [0, 1, 5, 7, 100] {
        let data = vec![1f32; values];
        tally.row("from_vec of other numbers", || Tensor::from_vec(data.clone(), [2, 3], ()));
        tally.row("from_slice of other numbers", || Tensor::from_slice(&data, [2, 3], ()));
        tally.row("from_vec on meta", || Tensor::from_vec(data.clone(), [2, 3], Device::meta()));
        tally.row("from_vec of beyond number", || Tensor::from_vec(data.clone(), [usize::MAX, 3], ()));
    }
    tally.row("ragged rows", || Tensor::new(vec![vec![1f32], vec![]], ()));
}

fn another_type<T: Element>(tally: &mut Tally) {
    for dtype in TYPES.into_iter().filter(|dtype| *dtype != T::DTYPE) {
        let x = Tensor::ones([2], dtype);
        tally.row(format!("{dtype} as {}", T::DTYPE), || x.to_vec::<T>());
    }
}
