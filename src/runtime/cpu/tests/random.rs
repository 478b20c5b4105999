//! Random kernels: any axes, loads, guards, computed indices, operations,
//! reductions and scans that the kernel IR allows.

mod forms;

use proptest::prelude::*;
use smallvec::SmallVec;

use crate::base::{CowArc, DType, Scalar};
use crate::ir::{AluOp, DeviceBuffer, Monoid};
use crate::kernel::{
    Access, Affine, AxisId, Dynamic, Expr, ExprId, ExprNode, Guard, Kernel, KernelInput, KernelStore,
    LoopAxis, Within,
};
use crate::runtime::cpu::tests::{buffer, difference};

/// Numbers that decide; 0, the simplest, once they are used up.
struct Choices {
    numbers: Vec<u32>,
    next: usize,
}

impl Choices {
    fn below(&mut self, count: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        number as usize % count.max(1)
    }
    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }
}

/// A kernel under construction, with its inputs' contents.
pub(in crate::runtime) struct Case {
    choices: Choices,
    pub kernel: Kernel,
    pub data: Vec<(DType, Vec<Scalar>)>,
    /// Whether results are not exact.
    pub rounds: bool,
    /// Whether inputs have infinities and NaN.
    special: bool,
    /// Expressions before this one are not used again.
    first: usize,
    /// The input that the output is written over.
    pub overwritten: Option<u32>,
}

const EXTENTS: [usize; 12] = [2, 3, 1, 5, 4, 7, 16, 9, 33, 70, 20, 130];
const NUMBERS: [i64; 9] = [0, 1, -1, 2, -2, 3, 1, 0, -3];
const DTYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::I64,
    DType::I32,
    DType::U8,
    DType::Bool,
    DType::F16,
    DType::BF16,
    DType::U32,
];

impl Case {
    fn new(numbers: Vec<u32>) -> Case {
        let kernel = Kernel {
            name: "random".into(),
            axes: CowArc::default(),
            exprs: Vec::new(),
            inputs: CowArc::default(),
            ..Kernel::default()
        };
        Case {
            choices: Choices { numbers, next: 0 },
            kernel,
            data: Vec::new(),
            rounds: false,
            special: false,
            first: 0,
            overwritten: None,
        }
    }

    /// Stores a value at the points of the only axis.
    fn stores_along(&mut self, axis: AxisId, value: ExprId) {
        self.kernel.stores.push(KernelStore {
            dtype: self.kernel.exprs[value.index()].dtype,
            value,
            level: 0,
            address: Affine::axis(axis),
            numel: self.kernel.axes[axis.index()].extent,
        });
    }

    fn axes(&mut self, level: u8, most: usize) {
        let count = self.choices.below(most + 1);
        for _ in 0..count {
            let mut extent = self.choices.of(&EXTENTS);
            if self.choices.chance(4) && self.kernel.axes.len() < 3 {
                extent = 5000;
            }
            if self.choices.chance(2) {
                extent = 0;
            }
            let points: usize = self.kernel.axes.iter().map(|axis| axis.extent.max(1)).product();
            if points * extent < 60_000 {
                self.kernel.axes.push(LoopAxis { extent, level });
            }
        }
    }

    fn push(&mut self, expr: Expr, dtype: DType, level: u8) -> ExprId {
        self.kernel.exprs.push(ExprNode { expr, dtype, level });
        ExprId(self.kernel.exprs.len() as u32 - 1)
    }

    /// Axes that a value of a level may vary along.
    fn visible(&self, level: u8) -> Vec<AxisId> {
        let ids = (0..self.kernel.axes.len() as u16).map(AxisId);
        // Affine terms leave axes of extent 1 out.
        let counts = |axis: &AxisId| self.kernel.axes[axis.index()].extent != 1;
        ids.filter(|axis| self.kernel.axes[axis.index()].level <= level && counts(axis)).collect()
    }

    fn extent(&self, axis: AxisId) -> usize {
        self.kernel.axes[axis.index()].extent
    }

    /// An affine value of some axes in some order, mostly dense, some backwards.
    fn affine(&mut self, level: u8) -> Affine {
        let choices = &mut self.choices;
        let mut axes: Vec<AxisId> = (0..self.kernel.axes.len() as u16).map(AxisId).collect();
        axes.retain(|axis| self.kernel.axes[axis.index()].level <= level && choices.chance(80));
        if self.choices.chance(30) && axes.len() > 1 {
            let (i, j) = (self.choices.below(axes.len()), self.choices.below(axes.len()));
            axes.swap(i, j);
        }
        let mut affine = Affine::constant(0);
        let mut step = if self.choices.chance(10) { 2 } else { 1 };
        for &axis in axes.iter().rev() {
            let extent = self.extent(axis) as i64;
            if extent <= 1 {
                continue;
            }
            if self.choices.chance(8) {
                affine = affine.plus(&Affine::axis(axis).times(-step));
                affine.offset += step * (extent - 1);
            } else {
                affine = affine.plus(&Affine::axis(axis).times(step));
            }
            // A step that takes no account of an axis makes a window.
            if !self.choices.chance(8) {
                step *= extent;
            }
        }
        affine
    }

    fn within(&mut self, level: u8) -> Option<Within> {
        let axes: Vec<AxisId> = self.visible(level).into_iter().filter(|a| self.extent(*a) > 1).collect();
        let axis = *axes.get(self.choices.below(axes.len()))?;
        let mut value = Affine::axis(axis).times(self.choices.of(&[1, 1, -1, 2]));
        if self.choices.chance(30) {
            let other = axes[self.choices.below(axes.len())];
            value = value.plus(&Affine::axis(other));
        }
        value.offset = self.choices.of(&[0, -1, 1, -3]);
        let (low, high) = value.range(&self.kernel.axes);
        let middle = low + self.choices.below((high - low + 1) as usize) as i64;
        Some(if self.choices.chance(50) {
            Within { value, low: middle, high: high + 1 }
        } else {
            Within { value, low, high: middle + 1 }
        })
    }

    /// An input whose elements a load with this access can reach. The
    /// numbers are small, so that most results are exact, and some special.
    fn input(&mut self, dtype: DType, numel: usize) -> u32 {
        let salt = self.choices.below(1000);
        let special = self.choices.chance(20) && dtype.is_float() && !self.rounds;
        self.special |= special;
        let values = (0..numel).map(|i| {
            let hash = (i + salt).wrapping_mul(0x9e37_79b9).wrapping_add(salt) >> 7;
            match hash % 301 {
                0 if special => Scalar::Float(f64::NAN),
                1 if special => Scalar::Float(f64::INFINITY),
                2 if special => Scalar::Float(-0.0),
                _ => Scalar::Int(NUMBERS[hash % NUMBERS.len()]).cast(dtype),
            }
        });
        self.data.push((dtype, values.collect()));
        self.kernel.inputs.push(KernelInput { dtype, numel });
        self.data.len() as u32 - 1
    }

    fn load(&mut self, dtype: DType, level: u8) -> ExprId {
        let mut access = Access { affine: self.affine(level), ..Access::default() };
        let (_, mut high) = access.affine.range(&self.kernel.axes);
        if self.choices.chance(25)
            && let Some(index) = self.any(|node| node.dtype == DType::I64 && node.level <= level)
        {
            let extent = 1 + self.choices.below(6);
            let stride = self.choices.of(&[1, 3, high + 1]);
            high += stride * (extent as i64 - 1);
            let index = if self.choices.chance(50) { self.in_range(index, extent) } else { index };
            access.dynamic.push(Dynamic { index, stride, extent, checked: true });
        }
        let mut guard = Guard::default();
        if self.choices.chance(25) {
            guard.within.extend(self.within(level));
        }
        if self.choices.chance(10) {
            guard.masks.extend(self.any(|node| node.dtype == DType::Bool && node.level <= level));
        }
        // An empty range of axes reaches nothing.
        let slot = self.input(dtype, (high + 1).max(0) as usize);
        self.push(Expr::loaded(slot, access, guard), dtype, level)
    }

    /// An index that is in range, whatever the one that it comes from is.
    fn in_range(&mut self, index: ExprId, extent: usize) -> ExprId {
        let level = self.level_of(&[index]);
        let number = |value: i64| Expr::Const(Scalar::Int(value).to_bits(DType::I64));
        let zero = self.push(number(0), DType::I64, 0);
        let index = self.push(Expr::Alu(AluOp::Max, [index, zero, zero]), DType::I64, level);
        let (op, last) = self.choices.of(&[(AluOp::Min, extent as i64 - 1), (AluOp::Rem, extent as i64)]);
        let last = self.push(number(last), DType::I64, 0);
        self.push(Expr::Alu(op, [index, last, last]), DType::I64, level)
    }

    fn any(&mut self, fits: impl Fn(&ExprNode) -> bool) -> Option<ExprId> {
        let ids: Vec<usize> =
            (self.first..self.kernel.exprs.len()).filter(|&i| fits(&self.kernel.exprs[i])).collect();
        // Mostly one of the last, so that expressions grow deep.
        let last = ids.len().min(if self.choices.chance(60) { 4 } else { usize::MAX });
        let at = ids.len() - last + self.choices.below(last);
        ids.get(at).map(|&i| ExprId(i as u32))
    }

    /// A value of this type, known or new.
    fn value(&mut self, dtype: DType, level: u8) -> ExprId {
        if self.choices.chance(60)
            && let Some(id) = self.any(|node| node.dtype == dtype && node.level <= level)
        {
            return id;
        }
        match self.choices.below(6) {
            5 => {
                let bits = Scalar::Int(self.choices.of(&NUMBERS)).cast(dtype).to_bits(dtype);
                self.push(Expr::Const(bits), dtype, 0)
            }
            4 if dtype == DType::I64 => {
                let affine = self.affine(level);
                self.push(Expr::Index(affine.into()), dtype, level)
            }
            4 if dtype == DType::Bool => match self.within(level) {
                Some(within) => self.push(Expr::Inside(within.into()), dtype, level),
                None => self.load(dtype, level),
            },
            _ => self.load(dtype, level),
        }
    }

    fn level_of(&self, ids: &[ExprId]) -> u8 {
        ids.iter().map(|id| self.kernel.exprs[id.index()].level).max().unwrap_or(0)
    }

    fn alu(&mut self, dtype: DType, level: u8) {
        const OPS: [AluOp; 12] = [
            AluOp::Add,
            AluOp::Sub,
            AluOp::Max,
            AluOp::Min,
            AluOp::Neg,
            AluOp::Lt,
            AluOp::Eq,
            AluOp::Where,
            AluOp::Abs,
            AluOp::Mul,
            AluOp::And,
            AluOp::Not,
        ];
        let op = self.choices.of(&OPS);
        // A rounding error must not decide anything.
        let decides = matches!(op, AluOp::Lt | AluOp::Eq | AluOp::Where | AluOp::Mul);
        if self.rounds && decides {
            return;
        }
        if !op.accepts().kind(dtype.kind()) {
            return;
        }
        let mut x: Vec<ExprId> = Vec::new();
        if op == AluOp::Where {
            x.push(self.value(DType::Bool, level));
        }
        while x.len() < op.arity() {
            x.push(self.value(dtype, level));
        }
        let result = if matches!(op, AluOp::Lt | AluOp::Eq) { DType::Bool } else { dtype };
        let level = self.level_of(&x);
        let at = |i: usize| *x.get(i).unwrap_or(&x[0]);
        self.push(Expr::Alu(op, [at(0), at(1), at(2)]), result, level);
    }

    fn reduce(&mut self, dtype: DType, level: u8) {
        let monoid = self.choices.of(Monoid::ALL);
        let decides = matches!(monoid, Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 | Monoid::Prod);
        // What the moments of infinities are depends on the order.
        if level == 0
            || (monoid == Monoid::M2 && self.special)
            || !monoid.accepts(dtype.kind())
            || (self.rounds && decides)
        {
            return;
        }
        self.rounds |= matches!(monoid, Monoid::M2 | Monoid::LogSumExp | Monoid::Prod);
        let x = self.value(dtype, level);
        self.push(Expr::Reduce(monoid, x), monoid.result(dtype), level - 1);
    }

    fn scan(&mut self, dtype: DType, level: u8) {
        let monoid = self.choices.of(&[Monoid::Sum, Monoid::Max, Monoid::Min, Monoid::LogSumExp]);
        let axes: Vec<AxisId> = self.kernel.level_axes(level).collect();
        if axes.len() != 1 || level == 0 || !monoid.accepts(dtype.kind()) {
            return;
        }
        self.rounds |= monoid == Monoid::LogSumExp;
        let x = self.value(dtype, level);
        self.push(Expr::Scan(monoid, x, axes[0]), dtype, level);
    }

    /// A dense address over all axes up to a level, and how many elements.
    fn bijection(&mut self, level: u8) -> (Affine, usize) {
        let mut axes: Vec<AxisId> =
            self.visible(level).into_iter().filter(|a| self.extent(*a) != 1).collect();
        if self.choices.chance(25) && axes.len() > 1 {
            let (i, j) = (self.choices.below(axes.len()), self.choices.below(axes.len()));
            axes.swap(i, j);
        }
        let mut address = Affine::default();
        let mut numel = 1;
        for &axis in axes.iter().rev() {
            address = address.plus(&Affine::axis(axis).times(numel as i64));
            numel *= self.extent(axis);
        }
        (address, numel)
    }

    fn store(&mut self, level: u8) {
        let dtype = self.choices.of(&DTYPES);
        let Some(value) = self.any(|node| node.level <= level) else { return };
        let from = self.kernel.exprs[value.index()].dtype;
        let exact = !self.rounds || matches!(dtype, DType::F32 | DType::F64);
        let dtype = if self.choices.chance(50) || !exact { from } else { dtype };
        let value = match dtype == from {
            true => value,
            false => {
                let level = self.kernel.exprs[value.index()].level;
                self.push(Expr::Cast(value), dtype, level)
            }
        };
        let (address, numel) = self.bijection(level);
        self.kernel.stores.push(KernelStore { dtype, value, level, address, numel });
    }

    fn steps(&mut self, depth: u8) {
        let main = self.choices.of(&DTYPES);
        for _ in 0..2 + self.choices.below(12) {
            let dtype = if self.choices.chance(70) { main } else { self.choices.of(&DTYPES) };
            let level = depth - self.choices.below(usize::from(depth) + 1) as u8;
            match self.choices.below(10) {
                0..=1 => drop(self.value(dtype, level)),
                2..=5 => self.alu(dtype, level),
                6..=7 => self.reduce(dtype, level),
                8 => self.scan(dtype, level),
                _ => {
                    let x = self.value(dtype, level);
                    let to = self.choices.of(if self.rounds { &DTYPES[..2] } else { &DTYPES });
                    let level = self.kernel.exprs[x.index()].level;
                    self.push(Expr::Cast(x), to, level);
                }
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        if self.kernel.stores.is_empty() && self.kernel.scatter().is_none() {
            return Ok(());
        }
        let inputs: Vec<DeviceBuffer> =
            self.data.iter().map(|(dtype, values)| buffer(values, *dtype)).collect();
        let tolerance = if self.rounds { 1e-2 } else { 1e-5 };
        match difference(&self.kernel, &inputs, self.overwritten, tolerance) {
            None => Ok(()),
            Some(difference) => Err(TestCaseError::fail(format!(
                "{difference}\n{}",
                crate::kernel::print::text(&self.kernel)
            ))),
        }
    }
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..100_000, 40..240)
}

/// A store that rounds by itself keeps its axes apart where its address does: this kernel
/// stores a cast constant in pieces.
#[test]
fn casts_that_stores_do_leave_addresses_as_they_are() {
    let numbers = [
        26020, 30274, 3, 0, 0, 411, 0, 0, 9590, 93621, 2130, 0, 28529, 6400, 18412, 0, 0, 0, 0, 0, 0, 91208,
        12830, 0, 82056, 0, 430, 0, 0, 0, 1439, 0, 0, 0, 0, 43816, 0, 0, 6, 0, 43942, 7836, 1140, 0, 0, 2105,
        0, 10900, 630, 2020, 600, 0, 0, 0, 0, 700, 11000, 0, 0, 0, 23730, 0, 5552, 85536, 530, 0, 48180,
        68600, 168, 56100, 33720, 0, 0, 0, 0, 300, 5275, 0, 0, 21100, 0, 0, 0, 30200, 0, 0, 36030, 0, 74792,
        16529, 82800, 1074, 8620, 920, 8970, 0, 0, 0, 0, 0, 0, 0, 100, 48375, 56389, 0, 400, 0, 11, 0, 0, 0,
        0, 0, 79337, 0, 6300, 84174, 0, 71150, 16900, 86819, 0, 10830, 0, 7242, 12764, 5430, 0, 23166, 0,
        75195, 0, 41290, 40, 37063, 22800,
    ];
    Case::rows(numbers.to_vec()).check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(400, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rows_agree_with_the_reference(numbers in numbers()) {
        Case::rows(numbers).check()?;
    }

    #[test]
    fn contractions_agree_with_the_reference(numbers in numbers()) {
        Case::contraction(numbers).check()?;
    }

    #[test]
    fn outputs_written_over_inputs_agree_with_the_reference(numbers in numbers()) {
        Case::in_place(numbers).check()?;
    }

    #[test]
    fn several_outputs_over_inputs_agree_with_the_reference(numbers in numbers()) {
        Case::multi_output_in_place(numbers).check()?;
    }

    #[test]
    fn scatters_agree_with_the_reference(numbers in numbers()) {
        Case::scatter(numbers).check()?;
    }
}

/// A guard of one condition.
#[test]
fn a_guard_that_never_holds_gives_zeros() {
    let mut case = Case::new(Vec::new());
    case.kernel.axes.push(LoopAxis { extent: 70, level: 0 });
    let slot = case.input(DType::F32, 70);
    let axis = AxisId(0);
    let never = Within { value: Affine::axis(axis), low: 100, high: 200 };
    let guard = Guard { within: vec![never], masks: SmallVec::new() };
    let access = Access { affine: Affine::axis(axis), ..Access::default() };
    let value = case.push(Expr::loaded(slot, access, guard), DType::F32, 0);
    case.stores_along(axis, value);
    case.check().unwrap();
}

/// The grid may be cut where a comparison of positions is decided, but not by
/// positions that wrap in the type they are compared in.
#[test]
fn positions_wrap_in_narrower_types() {
    for step in [1, 1 << 22] {
        let mut case = Case::new(Vec::new());
        case.kernel.axes.push(LoopAxis { extent: 1024, level: 0 });
        let position = case.push(Expr::Index(Affine::axis(AxisId(0)).times(step).into()), DType::I64, 0);
        let narrow = case.push(Expr::Cast(position), DType::I32, 0);
        let bound = case.push(Expr::Const(512), DType::I32, 0);
        let below = case.push(Expr::Alu(AluOp::Lt, [narrow, bound, narrow]), DType::Bool, 0);
        case.stores_along(AxisId(0), below);
        case.check().unwrap();
    }
}
