//! How many steps parameters have made, and the numbers that depend on it.
//!
//! The host counts the steps of an optimizer, unless a step may turn out void on the device: after an overflow in
//! 16 bits, or on a GPU by an index out of range. Then the device counts, in a number that such a step leaves as it
//! was, and the host waits for nothing.

use std::ops::{Add, Div, Mul};
use std::sync::Arc;

use crate::base::{DType, Device, Result};
use crate::ir::Node;
use crate::ir::alu::AluOp;
use crate::optim::rule::Rule;
use crate::plan::fallback::tells_late;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// A number that an update depends on: known to the host, or computed on the device from a count of steps
/// that only the device knows.
///
/// # Examples
/// ```
/// use kiln::optim::StepNumber;
/// // A learning rate that falls as 1 / (1 + steps before).
/// let step = StepNumber::from(4.0);
/// let lr = 0.5 / (step + -1.0 + 1.0);
/// assert_eq!(format!("{lr:?}"), "0.125");
/// ```
#[derive(Clone)]
pub struct StepNumber(Value);

#[derive(Clone)]
enum Value {
    Host(f64),
    /// Of rank 0.
    Device(CallSite, Tensor),
}

impl From<f64> for StepNumber {
    fn from(number: f64) -> StepNumber {
        StepNumber(Value::Host(number))
    }
}

impl std::fmt::Debug for StepNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Value::Host(number) => write!(f, "{number:?}"),
            Value::Device(_, tensor) => write!(f, "{tensor:?}"),
        }
    }
}

impl StepNumber {
    /// `exp(x) - 1`, exact where `x` is small.
    #[must_use]
    pub fn exp_m1(&self) -> StepNumber {
        self.map(f64::exp_m1, |_, x| x.expm1())
    }
    /// The square root.
    #[must_use]
    pub fn sqrt(&self) -> StepNumber {
        self.map(f64::sqrt, |_, x| x.sqrt())
    }
    /// The smaller of two numbers.
    #[must_use]
    pub fn min(&self, other: f64) -> StepNumber {
        self.map(|x| x.min(other), |site, x| site.min(x, beside(site, x, other)))
    }

    fn map(
        &self,
        host: impl FnOnce(f64) -> f64,
        device: impl FnOnce(CallSite, &Tensor) -> Tensor,
    ) -> StepNumber {
        StepNumber(match &self.0 {
            Value::Host(number) => Value::Host(host(*number)),
            Value::Device(site, x) => Value::Device(*site, device(*site, x)),
        })
    }

    /// As a tensor of rank 0.
    fn tensor(self, site: CallSite, dtype: DType, device: Device) -> Tensor {
        match self.0 {
            Value::Host(number) => site.argument(number, dtype, device),
            Value::Device(_, tensor) => tensor,
        }
    }
}

/// A number that is no part of the plan, as `x` is one: a learning rate changes.
fn beside(site: CallSite, x: &Tensor, number: f64) -> Tensor {
    site.argument(number, x.dtype(), x.device())
}

impl Mul<f64> for StepNumber {
    type Output = StepNumber;
    fn mul(self, other: f64) -> StepNumber {
        self.map(|x| x * other, |site, x| site.mul(x, beside(site, x, other)))
    }
}

impl Add<f64> for StepNumber {
    type Output = StepNumber;
    fn add(self, other: f64) -> StepNumber {
        self.map(|x| x + other, |site, x| site.add(x, beside(site, x, other)))
    }
}

impl Div<StepNumber> for f64 {
    type Output = StepNumber;
    fn div(self, by: StepNumber) -> StepNumber {
        by.map(|x| self / x, |site, x| site.div(beside(site, x, self), x))
    }
}

/// How many steps a parameter has made.
#[derive(Clone, Debug)]
pub(super) enum StepCount {
    /// By the host's count.
    Known(u64),
    /// By the device's: an `I32` of rank 0 beside the parameter.
    Counted(Tensor),
}

impl PartialEq for StepCount {
    /// Whether both are known to be equal.
    fn eq(&self, other: &StepCount) -> bool {
        match (self, other) {
            (StepCount::Known(one), StepCount::Known(other)) => one == other,
            (StepCount::Counted(one), StepCount::Counted(other)) => {
                matches!((one.node(), other.node()), (Ok(one), Ok(other)) if Arc::ptr_eq(one, other))
            }
            (StepCount::Known(_), StepCount::Counted(_)) | (StepCount::Counted(_), StepCount::Known(_)) => {
                false
            }
        }
    }
}

impl StepCount {
    /// As a tensor of rank 0 on a device.
    fn tensor(&self, site: CallSite, device: Device) -> Tensor {
        match self {
            StepCount::Known(steps) => site.argument(*steps as i64, DType::I32, device),
            StepCount::Counted(count) if count.device() == device => count.clone(),
            StepCount::Counted(count) => count.to(device),
        }
    }

    /// As states hold it, in host memory.
    pub fn saved(&self) -> Tensor {
        match self {
            StepCount::Known(steps) => Tensor::from_vec(vec![*steps as i64], (), Device::cpu()),
            StepCount::Counted(count) => count.to(Device::cpu()).to_dtype(DType::I64),
        }
    }

    /// The device's count.
    pub fn counted(&self) -> Option<&Tensor> {
        match self {
            StepCount::Known(_) => None,
            StepCount::Counted(count) => Some(count),
        }
    }
}

/// A step of parameters that are equally far.
#[derive(Clone, Debug)]
pub(super) struct StepOf {
    /// The count before, as a tensor where the device counts.
    pub before: StepCount,
    /// The count after.
    pub after: StepCount,
    /// What [`Rule::numbers`] gives.
    pub numbers: Vec<Tensor>,
    /// Where it is true, on the device, there is none.
    pub skip: Option<Tensor>,
}

/// The numbers of a step, shared by parameters that are equally far.
pub(super) struct StepNumbers<'a, R> {
    site: CallSite,
    rule: &'a R,
    /// Where it is true, on the device, no step is made.
    skip: Option<&'a Tensor>,
    /// Whether an index may make the step void.
    looks_up: &'a dyn Fn() -> bool,
    known: Vec<(StepKey, StepOf)>,
}

/// Steps with equal keys are one: what was counted, the type and device of the numbers, and what says whether there
/// is a gradient.
type StepKey = (StepCount, DType, Device, Option<*const Node>);

impl<'a, R: Rule> StepNumbers<'a, R> {
    pub fn new(
        site: CallSite,
        rule: &'a R,
        skip: Option<&'a Tensor>,
        looks_up: &'a dyn Fn() -> bool,
    ) -> StepNumbers<'a, R> {
        StepNumbers { site, rule, skip, looks_up, known: Vec::new() }
    }

    /// Whether to skip the step, on a device; `present` says whether there is a gradient.
    fn skip(&self, device: Device, present: Option<&Tensor>) -> Option<Tensor> {
        let skip = self.skip.map(|skip| if skip.device() == device { skip.clone() } else { skip.to(device) });
        let absent = present.map(|present| self.site.unary(AluOp::Not, present));
        match (skip, absent) {
            (Some(skip), Some(absent)) => Some(self.site.binary(AluOp::Or, &skip, &absent)),
            (Some(either), None) | (None, Some(either)) => Some(either),
            (None, None) => None,
        }
    }

    /// The step of a parameter that has made `steps`, with a gradient that is there if `present` says so.
    pub fn at(&mut self, steps: &StepCount, beside: &Tensor, present: Option<&Tensor>) -> Result<StepOf> {
        let known = present.map(|present| present.node().map(Arc::as_ptr)).transpose()?;
        let key = (steps.clone(), beside.dtype().compute(), beside.device(), known);
        if let Some((_, step)) = self.known.iter().find(|(known, _)| *known == key) {
            return Ok(step.clone());
        }
        let (dtype, device) = (key.1, key.2);
        let skip = self.skip(device, present);
        let (number, before, after) = match (steps, self.skip) {
            (StepCount::Known(steps), None) if !self.may_be_void(device, present.is_some()) => {
                let after = steps + 1;
                (StepNumber::from(after as f64), StepCount::Known(*steps), StepCount::Known(after))
            }
            (steps, _) => self.counted(&steps.tensor(self.site, device), skip.as_ref(), dtype),
        };
        let numbers = self.rule.numbers(&number).into_iter();
        let numbers: Vec<Tensor> = numbers.map(|number| number.tensor(self.site, dtype, device)).collect();
        numbers.iter().try_for_each(Tensor::check)?;
        let step = StepOf { before, after, numbers, skip };
        self.known.push((key, step.clone()));
        Ok(step)
    }

    /// Whether the device may find a step void when the host has counted it, and a later one depends on the count.
    fn may_be_void(&self, device: Device, is_void_without_gradient: bool) -> bool {
        let any = || StepNumber(Value::Device(self.site, self.site.argument(1, DType::F32, device)));
        tells_late(device)
            && self.rule.numbers(&any()).iter().any(|number| matches!(number.0, Value::Device(..)))
            && (is_void_without_gradient || (self.looks_up)())
    }

    /// A step that the device counts: its number, and the counts before and after.
    fn counted(
        &self,
        count: &Tensor,
        skip: Option<&Tensor>,
        dtype: DType,
    ) -> (StepNumber, StepCount, StepCount) {
        let site = self.site;
        let next = site.add(count, site.scalar(1, DType::I32, count.device()));
        let number = StepNumber(Value::Device(site, site.cast(&next, dtype)));
        let after = match skip {
            Some(skip) => site.select(skip, count, &next, DType::I32),
            None => next,
        };
        (number, StepCount::Counted(count.clone()), StepCount::Counted(after))
    }
}
