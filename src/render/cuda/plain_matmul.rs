//! Kernels that are nothing but a product of matrices in memory, which a library
//! of products computes as well as a kernel of ours.

use crate::base::{DType, Precision};
use crate::kernel::{Affine, AxisId, Contraction, Expr, ExprId, Kernel};
use crate::render::c_like::wide;
use crate::render::coalesce::coalesce;
use crate::render::cuda::thresholds;
use crate::render::cuda::tiles::unwidened;
use crate::render::product::{ProductExtents, oriented};

/// A matrix in memory, or a row of equal ones. Its lines are dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Which of the kernel's inputs, or outputs.
    pub slot: usize,
    /// Type of the elements.
    pub dtype: DType,
    /// Elements before the first.
    pub start: usize,
    /// Whether lines are columns, not rows.
    pub column_major: bool,
    /// Elements from a line to the next.
    pub leading_dimension: usize,
    /// Elements from a matrix to the next.
    pub batch_stride: usize,
}

/// `c = a b`, for each matrix of a batch. All of `c` is written, by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlainMatmul {
    /// How large.
    pub extents: ProductExtents,
    /// How exactly 32-bit factors are multiplied. The sum is of 32-bit floats.
    pub precision: Precision,
    /// Of m by k.
    pub a: Matrix,
    /// Of k by n.
    pub b: Matrix,
    /// Of m by n.
    pub c: Matrix,
}

impl PlainMatmul {
    /// What a kernel multiplies, if it does nothing else: floats of one type, up to
    /// 32 bits, whose products are stored in that type or as 32-bit floats.
    pub fn of(kernel: &Kernel) -> Option<PlainMatmul> {
        let kernel = &coalesce(kernel);
        let c = &oriented(kernel, kernel.contraction()?);
        let [store] = kernel.stores.as_slice() else { return None };
        if c.dtype != DType::F32 || !is_the_sum(kernel, store.value, store.dtype) {
            return None;
        }
        let (a, b) = (MatrixSource::of(kernel, c.a)?, MatrixSource::of(kernel, c.b)?);
        let known = matches!(a.dtype, DType::F16 | DType::BF16 | DType::F32);
        let stored = store.dtype == a.dtype || store.dtype == DType::F32;
        if !known || a.dtype != b.dtype || !stored {
            return None;
        }
        let axes = MatmulAxes::of(kernel, c)?;
        let result = MatrixSource { slot: 0, dtype: store.dtype, address: &store.address };
        let (a, b) =
            (a.matrix(kernel, axes.m, axes.k, axes.batch)?, b.matrix(kernel, axes.k, axes.n, axes.batch)?);
        let result = result.matrix(kernel, axes.m, axes.n, axes.batch)?;
        let precision = if a.dtype == DType::F32 { c.precision } else { Precision::Highest };
        let plain = PlainMatmul { extents: axes.extents(kernel), precision, a, b, c: result };
        (!plain.c.column_major && plain.is_in_range()).then_some(plain)
    }

    /// Whether all sizes are what a library's 32-bit numbers hold.
    fn is_in_range(&self) -> bool {
        let ProductExtents { batch, m, n, k } = self.extents;
        [batch, m, n, k].iter().all(|&extent| extent <= i32::MAX as usize)
    }

    /// Whether the library is taken where nothing is timed. Its kernels are tuned for
    /// each GPU and ours are not, but one that is over in a few microseconds is
    /// dominated by its launch, and flat matrices by memory, which ours mostly read as fast.
    pub fn is_worth_a_call(&self) -> bool {
        let ProductExtents { batch, m, n, k } = self.extents;
        let least = if self.a.dtype.size() == 2 {
            thresholds::MIN_LIBRARY_SIDE_OF_HALVES
        } else {
            thresholds::MIN_LIBRARY_SIDE
        };
        m.min(n).min(k) >= least && batch * m * n * k >= thresholds::MIN_LIBRARY_WORK
    }
}

/// Whether a value is the finished sum, rounded at most once on its way to memory of
/// a type.
fn is_the_sum(kernel: &Kernel, mut value: ExprId, stored: DType) -> bool {
    let mut dtypes = vec![stored];
    loop {
        dtypes.push(kernel.exprs[value.index()].dtype);
        match *kernel.expr(value) {
            Expr::Cast(x) => value = x,
            Expr::Accumulator => break,
            _ => return false,
        }
    }
    let mut from_sum = dtypes.iter().rev().skip_while(|&&dtype| dtype == DType::F32);
    from_sum.all(|&dtype| dtype == stored)
}

/// The one axis of each kind.
struct MatmulAxes {
    batch: Option<AxisId>,
    m: AxisId,
    n: AxisId,
    k: AxisId,
}

impl MatmulAxes {
    /// Those of a contraction. Where the second factor is the same for a batch, the
    /// batch is part of the rows.
    fn of(kernel: &Kernel, c: &Contraction) -> Option<MatmulAxes> {
        let wide = |axes: &[AxisId]| wide(kernel, axes.iter().copied());
        let (&[n], &[k]) = (&*wide(&c.n), &*wide(&c.k)) else { return None };
        let (batch, m) = match (&*wide(&c.batch), &*wide(&c.m)) {
            (&[], &[m]) => (None, m),
            (&[batch], &[m]) | (&[], &[batch, m]) => (Some(batch), m),
            _ => return None,
        };
        Some(MatmulAxes { batch, m, n, k })
    }

    fn extents(&self, kernel: &Kernel) -> ProductExtents {
        let extent = |axis: AxisId| kernel.axes[axis.index()].extent;
        let batch = self.batch.map_or(1, extent);
        ProductExtents { batch, m: extent(self.m), n: extent(self.n), k: extent(self.k) }
    }
}

/// Where elements lie.
struct MatrixSource<'k> {
    slot: usize,
    dtype: DType,
    address: &'k Affine,
}

impl<'k> MatrixSource<'k> {
    /// The input that an operand is.
    fn of(kernel: &'k Kernel, operand: ExprId) -> Option<MatrixSource<'k>> {
        let load = unwidened(kernel, operand);
        let Expr::Load(slot, access) = kernel.expr(load) else { return None };
        let (slot, plain) = (*slot as usize, access.dynamic.is_empty() && access.guard.is_always());
        let dtype = kernel.inputs[slot].dtype;
        let same = kernel.exprs[load.index()].dtype == dtype;
        (plain && same).then_some(MatrixSource { slot, dtype, address: &access.affine })
    }

    /// The matrix that it is along axes.
    fn matrix(&self, kernel: &Kernel, row: AxisId, column: AxisId, batch: Option<AxisId>) -> Option<Matrix> {
        let stride = |axis| self.address.coefficient(axis);
        let is_dense = |along, across| {
            stride(along) == 1 && stride(across) >= kernel.axes[AxisId::index(along)].extent as i64
        };
        let column_major = match (is_dense(column, row), is_dense(row, column)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        let known = |axis| [Some(row), Some(column), batch].contains(&Some(axis));
        let others = self.address.terms.iter().any(|term| !known(term.0));
        let pitch = stride(if column_major { column } else { row });
        (!others).then_some(Matrix {
            slot: self.slot,
            dtype: self.dtype,
            start: usize::try_from(self.address.offset).ok()?,
            column_major,
            leading_dimension: usize::try_from(pitch).ok()?,
            batch_stride: usize::try_from(batch.map_or(0, stride)).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use crate::base::Device;
    use crate::kernel::Workload;

    #[test]
    fn flat_matrices_go_to_the_library_if_their_floats_have_16_bits() {
        let is_worth_a_call = |rows: usize, dtype: DType| {
            let leaf = |dims: [usize; 2]| {
                let x = Tensor::zeros(dims, Device::null()).to_dtype(dtype);
                x.realize().expect("a leaf");
                x
            };
            let report = leaf([rows, 4096]).matmul(&leaf([4096, 4096])).plan().expect("a plan");
            let Workload::Kernel(kernel) = report.kernels[0].work() else { panic!("a kernel") };
            PlainMatmul::of(kernel).expect("a plain product").is_worth_a_call()
        };
        for (rows, dtype, wanted) in
            [(8, DType::BF16, true), (7, DType::BF16, false), (63, DType::F32, false), (64, DType::F32, true)]
        {
            assert_eq!(is_worth_a_call(rows, dtype), wanted, "{rows} rows of {dtype}");
        }
    }
}
