//! Layers of which each rank holds a part (Shoeybi et al. 2019, Megatron-LM).
//!
//! Ranks that share a model see the same data, compute the same loss, and hold different parts of large weights.
//! What goes between them has a gradient that fits that: the sum over ranks where a value is used by all, and
//! nothing more where a value is the sum of all.

use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::grad::custom_grad;
use crate::ir::collective::Reduce;
use crate::module;
use crate::nn::{Embedding, Layer, Linear, Param};
use crate::tensor::Tensor;

/// A value that all ranks have, used by each for its part: gradients are the sum over the ranks.
#[track_caller]
fn shared(group: &Group, x: &Tensor) -> Tensor {
    let group = group.clone();
    custom_grad(
        &[x],
        |x| x[0].clone(),
        move |_, _, gradient| vec![Some(group.all_reduce(gradient, Reduce::Sum))],
    )
}

/// The sum of the ranks' parts, whose gradient is that of each part.
#[track_caller]
fn summed(group: &Group, x: &Tensor) -> Tensor {
    custom_grad(&[x], |x| group.all_reduce(&x[0], Reduce::Sum), |_, _, gradient| vec![Some(gradient.clone())])
}

/// The part of a rank along an axis, as a parameter.
#[track_caller]
fn part(call: &'static str, group: &Group, param: &Param, axis: i64, span: Span) -> Result<Param> {
    let whole = param.get();
    whole.check()?;
    let extent = whole.shape().get(axis as usize).copied().unwrap_or(0);
    if extent == 0 || !extent.is_multiple_of(group.size()) {
        let expected = format!("a weight whose axis {axis} divides among {} ranks", group.size());
        return Err(Error::Argument { call, expected, found: whole.shape().to_string(), span });
    }
    let each = extent / group.size();
    let own = whole.detach().narrow(axis, (group.rank() * each) as i64, each).contiguous();
    own.realize()?;
    Ok(Param::new(own).divided_among(group))
}

/// A [`Linear`] whose outputs are divided among ranks: `[.., in]`, the same on all, to this rank's `[.., out / n]`.
/// A [`RowParallel`] layer takes that, with anything that works by element between the two.
///
/// PyTorch: `ColwiseParallel`.
///
/// # Examples
/// ```
/// use kiln::dist::{self, ColumnParallel, RowParallel};
/// use kiln::nn::{Layer, Linear};
/// use kiln::prelude::*;
/// let outputs = dist::spawn(2, |group| {
///     kiln::manual_seed(0); // the same layers on all ranks, of which each keeps its part
///     let (up, down) = (Linear::new(4, 8, ()), Linear::new(8, 4, ()));
///     let x = Tensor::randn([3, 4], ());
///     let whole = down.forward(&up.forward(&x).gelu());
///     let (up, down) = (ColumnParallel::new(&up, &group)?, RowParallel::new(&down, &group)?);
///     let parts = down.forward(&up.forward(&x).gelu());
///     assert_eq!(up.weight.shape()[..], [4, 4]);
///     (parts - whole).abs().max(..).item::<f32>()
/// })?;
/// assert!(outputs.iter().all(|&difference| difference < 1e-6));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct ColumnParallel {
    /// `[out / n, in]`.
    pub weight: Param,
    /// `[out / n]`.
    pub bias: Option<Param>,
    group: Group,
}
module!(ColumnParallel { weight, bias; skip group });

impl ColumnParallel {
    /// This rank's part of a layer that is the same on all ranks of the group.
    ///
    /// # Errors
    /// Outputs that do not divide among the ranks; the error recorded in a parameter.
    #[track_caller]
    pub fn new(layer: &Linear, group: &Group) -> Result<ColumnParallel> {
        let of = |param: &Param| part("ColumnParallel::new", group, param, 0, Span::caller());
        let (weight, bias) = (of(&layer.weight)?, layer.bias.as_ref().map(of).transpose()?);
        Ok(ColumnParallel { weight, bias, group: group.clone() })
    }
}

impl Layer for ColumnParallel {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        shared(&self.group, x).linear(&self.weight.get(), self.bias.as_ref().map(Param::get).as_ref())
    }
}

/// A [`Linear`] whose inputs are divided among ranks: this rank's `[.., in / n]` to `[.., out]`, the same on all. The
/// bias is whole on each.
///
/// PyTorch: `RowwiseParallel`. See [`ColumnParallel`] for an example.
#[derive(Debug)]
pub struct RowParallel {
    /// `[out, in / n]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
    group: Group,
}
module!(RowParallel { weight, bias; skip group });

impl RowParallel {
    /// This rank's part of a layer that is the same on all ranks of the group.
    ///
    /// # Errors
    /// Inputs that do not divide among the ranks; the error recorded in a parameter.
    #[track_caller]
    pub fn new(layer: &Linear, group: &Group) -> Result<RowParallel> {
        let weight = part("RowParallel::new", group, &layer.weight, 1, Span::caller())?;
        let bias = layer.bias.as_ref().map(|bias| Param::new(bias.get().detach()));
        Ok(RowParallel { weight, bias, group: group.clone() })
    }
}

impl Layer for RowParallel {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let sum = summed(&self.group, &x.linear(&self.weight.get(), None));
        match &self.bias {
            Some(bias) => sum + bias.get(),
            None => sum,
        }
    }
}

/// An [`Embedding`] whose entries are divided among ranks: integers `[..]` to `[.., width]`, the same on all.
///
/// PyTorch: `RowwiseParallel` of an `Embedding`.
///
/// # Examples
/// ```
/// use kiln::dist::{self, VocabularyParallel};
/// use kiln::nn::{Embedding, Layer};
/// use kiln::prelude::*;
/// let same = dist::spawn(2, |group| {
///     kiln::manual_seed(0);
///     let table = Embedding::new(6, 4, ());
///     let part = VocabularyParallel::new(&table, &group)?;
///     let tokens = Tensor::from([0i64, 5, 3, 2]);
///     Ok(part.forward(&tokens).to_vec::<f32>()? == table.forward(&tokens).to_vec::<f32>()?)
/// })?;
/// assert_eq!(same, [true, true]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct VocabularyParallel {
    /// `[entries / n, width]`.
    pub weight: Param,
    group: Group,
}
module!(VocabularyParallel { weight; skip group });

impl VocabularyParallel {
    /// This rank's part of a table that is the same on all ranks of the group.
    ///
    /// # Errors
    /// Entries that do not divide among the ranks; the error recorded in the table.
    #[track_caller]
    pub fn new(table: &Embedding, group: &Group) -> Result<VocabularyParallel> {
        let weight = part("VocabularyParallel::new", group, &table.weight, 0, Span::caller())?;
        Ok(VocabularyParallel { weight, group: group.clone() })
    }
}

impl Layer for VocabularyParallel {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let weight = self.weight.get();
        let entries = weight.shape()[0] as i64;
        let own = x - self.group.rank() as i64 * entries;
        let is_own = own.ge(0).logical_and(&own.lt(entries)).unsqueeze(-1);
        let rows = own.clamp(0, entries - 1).embedding(&weight);
        summed(&self.group, &is_own.select(&rows, 0.0))
    }
}
