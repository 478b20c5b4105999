//! The matrix product with broadcasting, and chains of products.

use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::linalg::expect_rank;

/// The product of a chain of matrices, in the order that needs the fewest multiplications.
///
/// The first and last may be vectors. Found by dynamic programming over the splits (Cormen et al.,
/// "Introduction to Algorithms", 15.2). Invalid below two tensors or when extents do not fit.
/// PyTorch: `torch.linalg.multi_dot`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::tensor::matmul::multi_dot;
/// let (a, b, c) = (Tensor::ones([2, 9], ()), Tensor::ones([9, 3], ()), Tensor::ones([3, 4], ()));
/// assert_eq!(multi_dot(&[&a, &b, &c]).dims()?, [2, 4]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn multi_dot(tensors: &[&Tensor]) -> Tensor {
    let site = CallSite::here("multi_dot");
    let tensors: Vec<_> = tensors.iter().map(|tensor| site.autocast(tensor)).collect();
    finish(chain(site, &tensors.iter().map(AsRef::as_ref).collect::<Vec<&Tensor>>()))
}

/// PyTorch's `matmul`.
pub(crate) fn matmul(site: CallSite, a: &Tensor, b: &Tensor) -> Tensor {
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => {
            let found = format!("ranks {} and {}", a.rank(), b.rank());
            site.invalid("tensors of rank at least 1", found, &[a, b])
        }
        (m, 1) => site.contract(a, b, &[], &[(m - 1, 0)]),
        (1, n) => site.contract(a, b, &[], &[(0, n - 2)]),
        (m, 2) => site.contract(a, b, &[], &[(m - 1, 0)]),
        (m, n) if m == n && a.shape()[..m - 2] == b.shape()[..n - 2] => {
            let pairs: Vec<(usize, usize)> = (0..m - 2).map(|i| (i, i)).collect();
            site.contract(a, b, &pairs, &[(m - 1, n - 2)])
        }
        (_, _) => finish(broadcast_matmul(site, a, b)),
    }
}

/// Which operand has a batch axis of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Both,
    First,
    Second,
}

/// The product where batch axes broadcast: an axis that one operand lacks,
/// or has with extent 1, is a free axis of the other.
fn broadcast_matmul(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Tensor> {
    let has = batch_axes(site, a, b)?;
    let own = |x: &Tensor, lacking: Has| {
        let shape = x.shape();
        let lead = has.len() + 2 - shape.rank();
        let batch = (0..has.len()).filter(|&i| has[i] != lacking);
        let mut dims: Vec<usize> = batch.map(|i| if i < lead { 1 } else { shape[i - lead] }).collect();
        dims.extend(&shape[shape.rank() - 2..]);
        site.reshape(x, &dims)
    };
    let (a, b) = (own(a, Has::Second), own(b, Has::First));
    let before = |i: usize, counts: &dyn Fn(Has) -> bool| has[..i].iter().filter(|&&h| counts(h)).count();
    let pairs: Vec<(usize, usize)> = (0..has.len())
        .filter(|&i| has[i] == Has::Both)
        .map(|i| (before(i, &|h| h != Has::Second), before(i, &|h| h != Has::First)))
        .collect();
    let product = site.contract(&a, &b, &pairs, &[(a.rank() - 1, b.rank() - 2)]);
    site.valid(&[&product])?;
    // The product's axes: the pairs, a's own, rows, b's own, columns.
    let rows = a.rank() - 2;
    let order: Vec<usize> = (0..has.len())
        .map(|i| {
            let start = match has[i] {
                Has::Both => 0,
                Has::First => pairs.len(),
                Has::Second => rows + 1,
            };
            start + before(i, &|h| h == has[i])
        })
        .chain([rows, product.rank() - 1])
        .collect();
    Ok(site.permute(&product, &order))
}

/// For each batch axis of the result, who has it.
fn batch_axes(site: CallSite, a: &Tensor, b: &Tensor) -> Checked<Vec<Has>> {
    let (sa, sb) = (a.shape(), b.shape());
    let batch = sa.rank().max(sb.rank()) - 2;
    let extent = |shape: &[usize], i: usize| {
        let lead = batch + 2 - shape.len();
        if i < lead { 1 } else { shape[i - lead] }
    };
    let who = |i| match (extent(&sa, i), extent(&sb, i)) {
        (x, y) if x == y => Ok(Has::Both),
        (_, 1) => Ok(Has::First),
        (1, _) => Ok(Has::Second),
        (x, y) => {
            let found = format!("{x} and {y} on batch axis {i}");
            Err(site.invalid("batch axes that broadcast together", found, &[a, b]))
        }
    };
    (0..batch).map(who).collect()
}

fn chain(site: CallSite, tensors: &[&Tensor]) -> Checked<Tensor> {
    site.require(tensors.len() >= 2, tensors, || ("at least two tensors".into(), tensors.len().to_string()))?;
    let last = tensors.len() - 1;
    for (i, x) in tensors.iter().enumerate() {
        let end = i == 0 || i == last;
        if !(end && x.rank() == 1) {
            expect_rank(site, x, 2)?;
        }
    }
    let (row, column) = (tensors[0].rank() == 1, tensors[last].rank() == 1);
    let mut chain: Vec<Tensor> = tensors.iter().map(|&x| x.clone()).collect();
    if row {
        chain[0] = site.unsqueeze(&chain[0], 0);
    }
    if column {
        chain[last] = site.unsqueeze(&chain[last], 1);
    }
    let mut dims: Vec<usize> = chain.iter().map(|x| x.shape()[0]).collect();
    dims.push(chain[last].shape()[1]);
    let result = multiply(site, &chain, &best_splits(&dims), 0, last);
    site.valid(&[&result])?;
    let kept: Vec<usize> =
        result.shape().iter().zip([row, column]).filter(|(_, drop)| !drop).map(|(&n, _)| n).collect();
    Ok(site.reshape(&result, &kept))
}

/// For each range of matrices `i..=j`, where to split it.
fn best_splits(dims: &[usize]) -> Vec<Vec<usize>> {
    let count = dims.len() - 1;
    let mut cost = vec![vec![0u128; count]; count];
    let mut split = vec![vec![0; count]; count];
    for length in 1..count {
        for i in 0..count - length {
            let j = i + length;
            let price = |k: usize| {
                let own = dims[i] as u128 * dims[k + 1] as u128 * dims[j + 1] as u128;
                cost[i][k] + cost[k + 1][j] + own
            };
            let (best, at) = (i..j).map(|k| (price(k), k)).min().unwrap_or((0, i));
            (cost[i][j], split[i][j]) = (best, at);
        }
    }
    split
}

fn multiply(site: CallSite, chain: &[Tensor], split: &[Vec<usize>], i: usize, j: usize) -> Tensor {
    if i == j {
        return chain[i].clone();
    }
    let k = split[i][j];
    matmul(site, &multiply(site, chain, split, i, k), &multiply(site, chain, split, k + 1, j))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, pattern, values};

    /// The product by its definition, for operands already broadcast.
    fn reference(a: &Tensor, b: &Tensor, batch: &[usize], m: usize, k: usize, n: usize) -> Vec<f64> {
        let spread = |x: &Tensor, rows, columns| {
            let dims = [batch, &[rows, columns]].concat();
            values(&CallSite::here("expand").expand(x, &dims))
        };
        let (a, b) = (spread(a, m, k), spread(b, k, n));
        let count: usize = batch.iter().product();
        let mut y = vec![0.0; count * m * n];
        for (i, y) in y.iter_mut().enumerate() {
            let (p, r, c) = (i / (m * n), i / n % m, i % n);
            *y = (0..k).map(|j| a[p * m * k + r * k + j] * b[p * k * n + j * n + c]).sum();
        }
        y
    }

    #[test]
    fn batch_axes_broadcast() {
        let cases: [(&[usize], &[usize], &[usize]); 7] = [
            (&[], &[], &[]),
            (&[2], &[2], &[2]),
            (&[2], &[], &[2]),
            (&[], &[2, 3], &[2, 3]),
            (&[2, 1], &[1, 3], &[2, 3]),
            (&[3, 1, 2], &[4, 1], &[3, 4, 2]),
            (&[1], &[5, 2], &[5, 2]),
        ];
        for (left, right, batch) in cases {
            let a = pattern(&[left, &[3, 4]].concat(), 1);
            let b = pattern(&[right, &[4, 2]].concat(), 2);
            assert_close(&a.matmul(&b), &[batch, &[3, 2]].concat(), &reference(&a, &b, batch, 3, 4, 2));
        }
    }

    #[test]
    fn vectors_are_rows_and_columns_that_disappear() {
        let (v, m) = (pattern(&[3], 3), pattern(&[2, 3, 4], 4));
        assert_close(&v.matmul(&m), &[2, 4], &reference(&v, &m, &[2], 1, 3, 4));
        let w = pattern(&[4], 5);
        let column = CallSite::here("reshape").reshape(&w, &[4, 1]);
        assert_close(&m.matmul(&w), &[2, 3], &reference(&m, &column, &[2], 3, 4, 1));
        assert_close(
            &v.matmul(&v),
            &[],
            &reference(&v, &CallSite::here("t").reshape(&v, &[3, 1]), &[], 1, 3, 1),
        );
    }

    #[test]
    fn errors_name_the_operation_and_the_extents() {
        let text = error_text(&pattern(&[2, 3], 0).matmul(&pattern(&[4, 2], 0)));
        assert!(
            text.starts_with("matmul:") && text.contains("3 and 4") && text.contains("matmul.rs"),
            "{text}"
        );
        let text = error_text(&pattern(&[2, 2, 3], 0).matmul(&pattern(&[3, 3, 2], 0)));
        assert!(text.contains("broadcast"), "{text}");
    }

    #[test]
    fn a_chain_is_multiplied_in_the_cheapest_order() {
        let (a, b, c) = (pattern(&[10, 1], 1), pattern(&[1, 10], 2), pattern(&[10, 2], 3));
        assert_eq!(best_splits(&[10, 1, 10, 2])[0][2], 0);
        assert_close(&multi_dot(&[&a, &b, &c]), &[10, 2], &values(&a.matmul(&b).matmul(&c)));
        let v = pattern(&[10], 4);
        assert_close(&multi_dot(&[&v, &a, &b, &v]), &[], &values(&v.matmul(&a).matmul(&b).matmul(&v)));
    }
}
