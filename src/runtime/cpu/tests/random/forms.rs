//! The forms of random kernels: rows, contractions, scatters.

use crate::base::{DType, Precision};
use crate::ir::{AluOp, ScatterMode};
use crate::kernel::{
    Access, Affine, AxisId, Contraction, Expr, ExprId, Guard, KernelRoot, KernelStore, ScatterStore,
};
use crate::runtime::cpu::tests::random::{Case, DTYPES};

impl Case {
    /// A kernel with stores at any level.
    pub fn rows(numbers: Vec<u32>) -> Case {
        let mut case = Case::new(numbers);
        let depth = case.choices.below(4).min(2) as u8;
        case.axes(0, 3);
        for level in 1..=depth {
            case.axes(level, 2);
        }
        case.steps(depth);
        for _ in 0..1 + case.choices.below(3) {
            let level = case.choices.below(usize::from(depth) + 1) as u8;
            case.store(level);
        }
        case
    }

    /// A kernel with one store, over an input read just where it is written.
    pub fn in_place(numbers: Vec<u32>) -> Case {
        let mut case = Case::new(numbers);
        let depth = case.choices.below(3) as u8;
        (0..=depth).for_each(|level| case.axes(level, 2));
        let dtype = case.choices.of(&DTYPES);
        let (address, numel) = case.bijection(depth);
        let slot = case.input(dtype, numel);
        let access = Access { affine: address.clone(), ..Access::default() };
        case.push(Expr::loaded(slot, access, Guard::default()), dtype, depth);
        case.steps(depth);
        let Some(value) = case.any(|node| node.dtype == dtype) else { return case };
        let store = KernelStore { dtype, value, level: depth, address, numel };
        case.kernel.stores.push(store);
        case.overwritten = Some(slot);
        case
    }

    /// A kernel with several stores at level 0, one of them over an input read
    /// just where it is written.
    pub(super) fn multi_output_in_place(numbers: Vec<u32>) -> Case {
        let mut case = Case::new(numbers);
        let depth = case.choices.below(2) as u8;
        (0..=depth).for_each(|level| case.axes(level, 2));
        let dtype = case.choices.of(&DTYPES);
        let (address, numel) = case.bijection(0);
        let slot = case.input(dtype, numel);
        let access = Access { affine: address.clone(), ..Access::default() };
        case.push(Expr::loaded(slot, access, Guard::default()), dtype, 0);
        case.steps(depth);
        for _ in 0..2 + case.choices.below(2) {
            let fits = |node: &crate::kernel::ExprNode| node.dtype == dtype && node.level == 0;
            let Some(value) = case.any(fits).filter(|&id| !case.kernel.is_copy(id)) else { return case };
            let store = KernelStore { dtype, value, level: 0, address: address.clone(), numel };
            case.kernel.stores.push(store);
        }
        case.overwritten = Some(slot);
        case
    }

    /// A kernel that contracts two values.
    pub fn contraction(numbers: Vec<u32>) -> Case {
        const TYPES: [DType; 6] = [DType::F32, DType::F64, DType::I64, DType::F16, DType::I32, DType::BF16];
        let mut case = Case::new(numbers);
        let [batch, m, n, k] = [0, 0, 0, 1].map(|level| {
            let before = case.kernel.axes.len();
            case.axes(level, 2);
            (before..case.kernel.axes.len()).map(|i| AxisId(i as u16)).collect::<Vec<AxisId>>()
        });
        let dtype = case.choices.of(&TYPES);
        let (a, b) = (case.operand(dtype, &n), case.operand(dtype, &m));
        let dtype = dtype.compute();
        case.kernel.root = Contraction { a, b, dtype, precision: Precision::Highest, batch, m, n, k }.into();
        case.epilogue(dtype);
        case
    }

    /// An operand, of level 1, that does not vary along some axes.
    fn operand(&mut self, dtype: DType, without: &[AxisId]) -> ExprId {
        // What the other operand computes varies along its axes.
        self.first = self.kernel.exprs.len();
        let axes = self.kernel.axes.clone();
        // Nothing varies along an axis with one position.
        without.iter().for_each(|axis| self.kernel.axes[axis.index()].extent = 1);
        let from = if self.choices.chance(20) { self.choices.of(&DTYPES[2..6]) } else { dtype };
        let mut value = self.load(from, 1);
        if from != dtype {
            value = self.push(Expr::Cast(value), dtype, 1);
        }
        if self.choices.chance(40) {
            let other = self.load(dtype, 1);
            value = self.push(Expr::Alu(AluOp::Add, [value, other, value]), dtype, 1);
        }
        self.kernel.axes = axes;
        value
    }

    /// Stores of what follows a contraction.
    fn epilogue(&mut self, dtype: DType) {
        // Nothing of an operand is there once the sum is.
        self.first = self.kernel.exprs.len();
        let mut value = self.push(Expr::Accumulator, dtype, 0);
        if self.choices.chance(50) {
            let bias = self.load(dtype, 0);
            value = self.push(Expr::Alu(AluOp::Add, [value, bias, value]), dtype, 0);
        }
        self.store(0);
        // The first store is of the product.
        if let Some(store) = self.kernel.stores.first_mut() {
            (store.value, store.dtype) = (value, dtype);
        }
        if self.choices.chance(30) {
            self.store(0);
        }
    }

    /// A kernel that scatters.
    pub fn scatter(numbers: Vec<u32>) -> Case {
        let mut case = Case::new(numbers);
        case.axes(0, 3);
        case.steps(0);
        let dtype = case.choices.of(&DTYPES);
        let value = case.value(dtype, 0);
        let index = case.value(DType::I64, 0);
        let extent = 1 + case.choices.below(9);
        let axes: Vec<AxisId> = case.visible(0).into_iter().filter(|a| case.extent(*a) != 1).collect();
        // None, one, or several that meet.
        let most = case.choices.below(3);
        let mut meeting: Vec<AxisId> = Vec::new();
        for &axis in &axes {
            if meeting.len() < most && case.choices.below(axes.len()) < most {
                meeting.push(axis);
            }
        }
        let mut address = Affine::default();
        let mut numel = 1;
        let stride = 1;
        numel *= extent;
        for &other in axes.iter().rev().filter(|a| !meeting.contains(a)) {
            address = address.plus(&Affine::axis(other).times(numel as i64));
            numel *= case.extent(other);
        }
        let mode = case.choices.of(&[
            ScatterMode::Set,
            ScatterMode::Add,
            ScatterMode::Mul,
            ScatterMode::Max,
            ScatterMode::Min,
        ]);
        let mode = if dtype == DType::Bool { ScatterMode::Set } else { mode };
        case.kernel.root = KernelRoot::from(ScatterStore {
            dtype,
            index,
            checked: true,
            value,
            address,
            stride,
            extent,
            axes: meeting,
            mode,
            numel,
        });
        case
    }
}
