//! Decompositions of matrices: the work, and how results lie in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytemuck::Pod;
use kiln_linalg::{Factors, Number};

use crate::base::{DType, Shape};
use crate::ir::{Custom, Type};
use crate::runtime::cpu::threads;

/// A decomposition of each matrix of a batch. The result has a row per matrix, in which its factors
/// follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decomposition {
    /// What is computed.
    pub factors: Factors,
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub columns: usize,
    /// `F32` or `F64`.
    pub dtype: DType,
}

impl Decomposition {
    /// The one kernel of this work: plans know kernels by their address.
    pub fn kernel(self) -> Arc<dyn Custom> {
        static KERNELS: LazyLock<Mutex<HashMap<Decomposition, Arc<Decomposition>>>> =
            LazyLock::new(Mutex::default);
        let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.entry(self).or_insert_with(|| Arc::new(self)).clone()
    }

    /// The shapes of a matrix's factors, in the order in which they lie.
    pub fn shapes(&self) -> Vec<Shape> {
        self.factors.shapes(self.rows, self.columns).into_iter().map(Shape::from).collect()
    }

    /// Where a factor lies in a matrix's row.
    pub fn range(&self, which: usize) -> Range<usize> {
        let lengths: Vec<usize> = self.shapes().iter().map(Shape::numel).collect();
        let start = sum(&lengths[..which]);
        start..start.saturating_add(lengths[which])
    }

    /// Elements of a matrix's row.
    fn width(&self) -> usize {
        sum(&self.shapes().iter().map(Shape::numel).collect::<Vec<_>>())
    }

    fn run<T: Number + Pod>(&self, matrices: &[u8], results: &mut [u8]) {
        let (size, width) = (self.rows * self.columns * size_of::<T>(), self.width() * size_of::<T>());
        if width == 0 {
            return;
        }
        let results: Vec<Mutex<&mut [u8]>> = results.chunks_exact_mut(width).map(Mutex::new).collect();
        threads::parallel_for(results.len(), |i| {
            let matrix: Vec<T> = bytemuck::pod_collect_to_vec(&matrices[i * size..(i + 1) * size]);
            let row = T::factor(self.factors, self.rows, self.columns, &matrix);
            let mut result = results[i].lock().unwrap_or_else(PoisonError::into_inner);
            result.copy_from_slice(bytemuck::cast_slice(&row));
        });
    }
}

fn sum(lengths: &[usize]) -> usize {
    lengths.iter().fold(0, |sum, &length| sum.saturating_add(length))
}

impl Custom for Decomposition {
    fn name(&self) -> &str {
        match self.factors {
            Factors::Svd { .. } => "svd",
            Factors::SingularValues => "svdvals",
            Factors::Eigh => "eigh",
            Factors::Eigenvalues => "eigvalsh",
            Factors::Qr { .. } => "qr",
        }
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
        let expected = || format!("{} matrices of {} x {}", self.dtype, self.rows, self.columns);
        let [ty] = operands else { return Err(expected()) };
        let Some((batch, [rows, columns])) = ty.shape.split_last_chunk() else { return Err(expected()) };
        if (ty.dtype, *rows, *columns) != (self.dtype, self.rows, self.columns) {
            return Err(expected());
        }
        Ok(vec![ty.with_shape(&[batch, &[self.width()]].concat()[..])])
    }

    fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
        match self.dtype {
            DType::F32 => self.run::<f32>(operands[0], results[0]),
            DType::F64 => self.run::<f64>(operands[0], results[0]),
            other => return Err(format!("{} of {other}", self.name())),
        }
        Ok(())
    }
}
