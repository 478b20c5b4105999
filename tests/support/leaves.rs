//! Leaves with values that follow from a function, and values of results.

use kiln::prelude::*;

/// Leaves whose elements a function of their numbers gives.
pub fn leaves(shapes: &[&[usize]], dtype: DType, value: impl Fn(usize) -> f32) -> Vec<Tensor> {
    let leaf = |(number, shape): (usize, &&[usize])| {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| value(i * shapes.len() + number)).collect();
        let leaf = Tensor::from_vec(values, *shape, ()).to_dtype(dtype);
        leaf.realize().expect("a leaf");
        leaf
    };
    shapes.iter().enumerate().map(leaf).collect()
}

/// The elements of a tensor, which is computed by itself.
pub fn values(x: &Tensor) -> Vec<f64> {
    x.realize().expect("a result");
    x.to_dtype(DType::F64).to_vec().expect("a result")
}
