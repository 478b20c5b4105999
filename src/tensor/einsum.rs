//! Einstein summation: axes named by letters.

use crate::ir::Monoid;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::reduce::total;

/// Sums of products over named axes, in PyTorch's notation: `"bij,bjk->bik"`.
///
/// Without `->` the result has the letters that appear once, in alphabetical
/// order. `...` stands for any number of leading axes that broadcast; a
/// letter repeated within an operand takes its diagonal; extents of 1
/// broadcast. Operands are contracted pairwise from the left; a letter that
/// is needed nowhere else is summed first.
///
/// Invalid when the text is malformed or does not fit the operands.
///
/// # Examples
/// ```
/// use kiln::einsum;
/// use kiln::prelude::*;
/// let (a, b) = (Tensor::ones([2, 3], ()), Tensor::ones([3, 4], ()));
/// assert_eq!(einsum("ij,jk->ik", &[&a, &b]).dims()?, [2, 4]);
/// assert_eq!(einsum("ij->i", &[&a]).to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Tensor {
    let site = CallSite::here("einsum");
    let operands: Vec<_> = operands.iter().map(|operand| site.autocast(operand)).collect();
    finish(evaluate(site, equation, &operands.iter().map(AsRef::as_ref).collect::<Vec<&Tensor>>()))
}

/// Names an axis: a letter, or the n-th axis of the ellipsis from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AxisLabel {
    // Ellipsis axes come first in an implicit result.
    Ellipsis(usize),
    Letter(char),
}

/// A tensor whose axes have distinct names.
struct Named {
    tensor: Tensor,
    labels: Vec<AxisLabel>,
}

impl Named {
    fn position(&self, label: AxisLabel) -> Option<usize> {
        self.labels.iter().position(|&l| l == label)
    }
    /// The extent under a label; 1 where there is none.
    fn extent(&self, label: AxisLabel) -> usize {
        self.position(label).map_or(1, |i| self.tensor.shape()[i])
    }
}

/// One operand's or the result's letters, with the place of its ellipsis.
struct Subscripts {
    letters: Vec<char>,
    ellipsis: Option<usize>,
}

fn evaluate(site: CallSite, equation: &str, operands: &[&Tensor]) -> Checked<Tensor> {
    site.valid(operands)?;
    let (inputs, output) = parse(site, equation, operands)?;
    let mut named = Vec::new();
    for (subscripts, operand) in inputs.iter().zip(operands) {
        named.push(name_axes(site, equation, subscripts, operand)?);
    }
    let ellipsis = named.iter().flat_map(|n| &n.labels).filter(|l| matches!(l, AxisLabel::Ellipsis(_)));
    let width = ellipsis.map(|l| if let AxisLabel::Ellipsis(i) = l { i + 1 } else { 0 }).max().unwrap_or(0);
    let result = match output {
        Some(subscripts) => labels_of(&subscripts, width),
        None => implicit(&inputs, width),
    };
    check_result(site, equation, &result, &named, operands)?;
    let mut named = broadcast(site, equation, named, operands)?.into_iter();
    let Some(first) = named.next() else {
        return Err(site.invalid("at least one operand", "none", &[]));
    };
    let rest: Vec<Named> = named.collect();
    let mut acc =
        sum_out(site, first, rest.is_empty(), |label| result.contains(&label) || mentions(&rest, label));
    for i in 0..rest.len() {
        let later = &rest[i + 1..];
        let kept = |label| result.contains(&label) || mentions(later, label);
        let next = Named { tensor: rest[i].tensor.clone(), labels: rest[i].labels.clone() };
        let next = sum_out(site, next, false, |label| kept(label) || acc.position(label).is_some());
        acc = pair(site, acc, next, kept);
    }
    order(site, &acc, &result)
}

fn parse(
    site: CallSite,
    equation: &str,
    operands: &[&Tensor],
) -> Checked<(Vec<Subscripts>, Option<Subscripts>)> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (text.as_str(), None),
    };
    let inputs: Vec<Subscripts> =
        inputs.split(',').map(|part| subscripts(site, equation, part, operands)).collect::<Checked<_>>()?;
    site.require(inputs.len() == operands.len(), operands, || {
        (format!("{} operands for {equation:?}", inputs.len()), operands.len().to_string())
    })?;
    let output = output.map(|part| subscripts(site, equation, part, operands)).transpose()?;
    Ok((inputs, output))
}

fn subscripts(site: CallSite, equation: &str, part: &str, operands: &[&Tensor]) -> Checked<Subscripts> {
    let malformed = || {
        let expected = "letters with at most one ellipsis for each operand";
        Err(site.invalid(expected, format!("{part:?} in {equation:?}"), operands))
    };
    let (head, tail, ellipsis) = match part.split_once("...") {
        Some((head, tail)) => (head, tail, Some(head.len())),
        None => (part, "", None),
    };
    let letters: Vec<char> = head.chars().chain(tail.chars()).collect();
    if letters.iter().all(char::is_ascii_alphabetic) {
        Ok(Subscripts { letters, ellipsis })
    } else {
        malformed()
    }
}

/// The labels of subscripts whose ellipsis stands for `width` axes.
fn labels_of(subscripts: &Subscripts, width: usize) -> Vec<AxisLabel> {
    let mut labels: Vec<AxisLabel> = subscripts.letters.iter().map(|&c| AxisLabel::Letter(c)).collect();
    if let Some(at) = subscripts.ellipsis {
        labels.splice(at..at, (0..width).rev().map(AxisLabel::Ellipsis));
    }
    labels
}

/// The result's labels where the equation has no arrow.
fn implicit(inputs: &[Subscripts], width: usize) -> Vec<AxisLabel> {
    let all: Vec<char> = inputs.iter().flat_map(|s| s.letters.iter().copied()).collect();
    let once = |c: &&char| all.iter().filter(|d| d == c).count() == 1;
    let mut letters: Vec<AxisLabel> = all.iter().filter(once).map(|&c| AxisLabel::Letter(c)).collect();
    letters.sort_unstable();
    (0..width).rev().map(AxisLabel::Ellipsis).chain(letters).collect()
}

/// The operand under distinct labels: repeated ones take the diagonal.
fn name_axes(site: CallSite, equation: &str, subscripts: &Subscripts, x: &Tensor) -> Checked<Named> {
    let letters = subscripts.letters.len();
    let fits = x.rank() == letters || (subscripts.ellipsis.is_some() && x.rank() > letters);
    site.require(fits, &[x], || {
        let more = if subscripts.ellipsis.is_some() { " and more" } else { "" };
        (format!("an operand of rank {letters}{more} for {equation:?}"), format!("rank {}", x.rank()))
    })?;
    let mut named = Named { tensor: x.clone(), labels: labels_of(subscripts, x.rank() - letters) };
    while let Some((i, j)) = repeated(&named.labels) {
        let (m, n) = (named.tensor.shape()[i], named.tensor.shape()[j]);
        site.require(m == n, &[x], || {
            (format!("one extent for each letter of {equation:?}"), format!("{m} and {n}"))
        })?;
        named.tensor = site.diagonal(&named.tensor, i, j);
        // The diagonal is a new last axis in place of the two.
        let label = named.labels.remove(j);
        named.labels.remove(i);
        named.labels.push(label);
    }
    Ok(named)
}

fn repeated(labels: &[AxisLabel]) -> Option<(usize, usize)> {
    labels
        .iter()
        .enumerate()
        .find_map(|(j, label)| labels[..j].iter().position(|l| l == label).map(|i| (i, j)))
}

fn check_result(
    site: CallSite,
    equation: &str,
    result: &[AxisLabel],
    named: &[Named],
    operands: &[&Tensor],
) -> Checked<()> {
    site.require(repeated(result).is_none(), operands, || {
        ("each letter of the result once".into(), format!("{equation:?}"))
    })?;
    site.require(result.iter().all(|&label| mentions(named, label)), operands, || {
        ("letters of the result that an operand has".into(), format!("{equation:?}"))
    })
}

fn mentions(named: &[Named], label: AxisLabel) -> bool {
    named.iter().any(|n| n.labels.contains(&label))
}

/// Checks that extents agree; an axis of extent 1 where others are longer is
/// dropped, as every position holds the same.
fn broadcast(site: CallSite, equation: &str, named: Vec<Named>, operands: &[&Tensor]) -> Checked<Vec<Named>> {
    let extents: Vec<Vec<usize>> = named
        .iter()
        .map(|n| {
            n.labels
                .iter()
                .map(|&label| named.iter().map(|m| m.extent(label)).find(|&e| e != 1).unwrap_or(1))
                .collect()
        })
        .collect();
    let mut result = Vec::new();
    for (Named { tensor, labels }, extents) in named.into_iter().zip(extents) {
        let shape = tensor.shape();
        let fits = shape.iter().zip(&extents).all(|(&own, &all)| own == all || own == 1);
        site.require(fits, operands, || {
            (
                format!("one extent for each letter of {equation:?}"),
                format!("shape {shape} beside {extents:?}"),
            )
        })?;
        let kept: Vec<usize> = (0..labels.len()).filter(|&i| shape[i] == extents[i]).collect();
        let dims: Vec<usize> = kept.iter().map(|&i| shape[i]).collect();
        let labels = kept.iter().map(|&i| labels[i]).collect();
        result.push(Named { tensor: site.reshape(&tensor, &dims), labels });
    }
    Ok(result)
}

/// Sums over the axes that are not kept; those of a single operand are sums as by `sum`, of integers `I64`.
fn sum_out(site: CallSite, named: Named, single: bool, kept: impl Fn(AxisLabel) -> bool) -> Named {
    let axes: Vec<usize> = (0..named.labels.len()).filter(|&i| !kept(named.labels[i])).collect();
    let labels = named.labels.iter().copied().filter(|&label| kept(label)).collect();
    let tensor = match axes.is_empty() {
        true => named.tensor,
        false if single => total(site, &named.tensor, &axes),
        false => site.reduce(Monoid::Sum, &named.tensor, &axes),
    };
    Named { tensor, labels }
}

/// The product of two, summed over the labels that are not kept.
fn pair(site: CallSite, a: Named, b: Named, kept: impl Fn(AxisLabel) -> bool) -> Named {
    let shared: Vec<(AxisLabel, (usize, usize))> = a
        .labels
        .iter()
        .enumerate()
        .filter_map(|(i, &label)| b.position(label).map(|j| (label, (i, j))))
        .collect();
    let (batch, summed): (Vec<_>, Vec<_>) = shared.into_iter().partition(|&(label, _)| kept(label));
    let free = |n: &Named| -> Vec<AxisLabel> {
        let paired = |label: &AxisLabel| batch.iter().chain(&summed).any(|(l, _)| l == label);
        n.labels.iter().copied().filter(|label| !paired(label)).collect()
    };
    let (free_a, free_b) = (free(&a), free(&b));
    let labels = [batch.iter().map(|&(label, _)| label).collect(), free_a, free_b].concat();
    let pairs = |list: &[(AxisLabel, (usize, usize))]| list.iter().map(|&(_, p)| p).collect::<Vec<_>>();
    // Nothing to sum: a product of views fuses, a contraction would not.
    let tensor = if summed.is_empty() {
        site.mul(align(site, &a, &labels), align(site, &b, &labels))
    } else {
        site.contract(&a.tensor, &b.tensor, &pairs(&batch), &pairs(&summed))
    };
    Named { tensor, labels }
}

/// The tensor with one axis for each label, of extent 1 where it has none.
fn align(site: CallSite, named: &Named, labels: &[AxisLabel]) -> Tensor {
    let own: Vec<usize> = labels.iter().filter_map(|&label| named.position(label)).collect();
    let dims: Vec<usize> = labels.iter().map(|&label| named.extent(label)).collect();
    site.reshape(&site.permute(&named.tensor, &own), &dims)
}

fn order(site: CallSite, named: &Named, result: &[AxisLabel]) -> Checked<Tensor> {
    site.valid(&[&named.tensor])?;
    let order: Vec<usize> = result.iter().filter_map(|&label| named.position(label)).collect();
    Ok(site.permute(&named.tensor, &order))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DType;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

    #[test]
    fn products_of_two_are_contractions() {
        let (a, b) = (pattern(&[2, 3, 4], 1), pattern(&[2, 4, 5], 2));
        assert_close(&einsum("bij,bjk->bik", &[&a, &b]), &[2, 3, 5], &values(&a.matmul(&b)));
        assert_close(&einsum("b i j, b j k", &[&a, &b]), &[3, 5], &values(&einsum("bij,bjk->ik", &[&a, &b])));
        let m = CallSite::here("t").transpose(&a.matmul(&b), 1, 2);
        assert_close(&einsum("...ij,...jk->...ki", &[&a, &b]), &[2, 5, 3], &values(&m));
    }

    #[test]
    fn one_operand_is_summed_permuted_or_cut_diagonally() {
        let a = pattern(&[3, 3, 3], 1);
        let v = values(&a);
        let at = |i: usize, j: usize, k: usize| v[9 * i + 3 * j + k];
        let diagonal: Vec<f64> = (0..3).map(|i| at(i, i, i)).collect();
        assert_close(&einsum("iii->i", &[&a]), &[3], &diagonal);
        assert_close(&einsum("iii", &[&a]), &[], &[diagonal.iter().sum()]);
        let mixed: Vec<f64> = (0..9).map(|p| at(p % 3, p / 3, p % 3)).collect();
        assert_close(&einsum("iji->ji", &[&a]), &[3, 3], &mixed);
        assert_close(
            &einsum("zyx", &[&a]),
            &[3, 3, 3],
            &values(&CallSite::here("p").permute(&a, &[2, 1, 0])),
        );
        assert_close(&einsum("...->", &[&a]), &[], &[v.iter().sum()]);
    }

    #[test]
    fn three_operands_and_extents_of_one() {
        let (a, b, c) = (pattern(&[2, 1], 1), pattern(&[3], 2), pattern(&[2, 3], 3));
        let (va, vb, vc) = (values(&a), values(&b), values(&c));
        let expected: Vec<f64> =
            (0..2).map(|i| (0..3).map(|j| va[i] * vb[j] * vc[3 * i + j]).sum()).collect();
        assert_close(&einsum("ij,j,ij->i", &[&a, &b, &c]), &[2], &expected);
        let outer: Vec<f64> = (0..6).map(|p| va[p / 3] * vb[p % 3]).collect();
        assert_close(&einsum("ik,j->ij", &[&a, &b]), &[2, 3], &outer);
    }

    #[test]
    fn integers_keep_their_type_but_for_sums_of_one_operand() {
        for dtype in [DType::U8, DType::I32, DType::I64] {
            let (a, b) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), f32s(&[2, 2], &[5.0, 6.0, 7.0, 8.0]));
            let (a, b) = (a.to_dtype(dtype), b.to_dtype(dtype));
            let product = einsum("ij,jk->ik", &[&a, &b]);
            assert_eq!(product.dtype(), dtype);
            assert_close(&product, &[2, 2], &[19.0, 22.0, 43.0, 50.0]);
            assert_eq!(a.matmul(&b).dtype(), dtype);
            assert_close(&a.matmul(&b), &[2, 2], &[19.0, 22.0, 43.0, 50.0]);
            let outer = einsum("ij,kl->ijkl", &[&a, &b]);
            assert_eq!((outer.dtype(), outer.rank()), (dtype, 4));
            assert_close(&einsum("ij,ij->", &[&a, &b]), &[], &[70.0]);
            let sum = einsum("ij->i", &[&a]);
            assert_eq!((sum.dtype(), einsum("ij->ji", &[&a]).dtype()), (DType::I64, dtype));
            assert_close(&sum, &[2], &[3.0, 7.0]);
        }
        let many = f32s(&[3], &[200.0; 3]).to_dtype(DType::U8);
        assert_close(&einsum("i->", &[&many]), &[], &[600.0]);
    }

    #[test]
    fn errors_quote_the_equation() {
        let (a, b) = (pattern(&[2, 3], 1), pattern(&[4, 5], 2));
        for (equation, operands) in [
            ("ij,jk->ik", vec![&a, &b]),
            ("ij->ik", vec![&a]),
            ("ij->ii", vec![&a]),
            ("ij,jk", vec![&a]),
            ("i?->i", vec![&a]),
            ("ijk->i", vec![&a]),
            ("ii->i", vec![&a]),
        ] {
            assert!(error_text(&einsum(equation, &operands)).contains(equation), "{equation}");
        }
    }
}
