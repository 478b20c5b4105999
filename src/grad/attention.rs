//! The gradient of attention: composites of its own, so that templates may run them
//! without writing scores or their gradients.

use std::sync::Arc;

use crate::base::Result;
use crate::grad::control::{self, instantiate, source};
use crate::grad::pull_back::{Cotangent, pull_back};
use crate::grad::vjp::VjpContext;
use crate::ir::{BuiltIn, Composite, Node};
use crate::tensor::Tensor;
use crate::tensor::attention::log_sums;
use crate::tensor::compose::CallSite;
use crate::tensor::control::composite_at;

/// The cotangents of queries, keys and values. A mask's is that of the scores, so
/// where it is needed all are those of attention's body.
pub(super) fn attention(p: &VjpContext, attention: &Composite, out: u32) -> Result<Vec<Option<Tensor>>> {
    if p.needs.get(3) == Some(&true) {
        return control::composite(p, attention, out);
    }
    let wide = |x: &Tensor| p.site.cast(x, x.dtype().compute());
    let [q, k, v] = [&p.x[0], &p.x[1], &p.x[2]];
    let mask = p.x.get(3);
    let sums = log_sums(p.site, attention, p.x);
    // What each row's shares have in common of their gradients (Dao et al. 2022).
    let products = p.site.sum(&p.site.mul(wide(p.g), wide(p.y)), &[p.y.rank() - 1]);
    let apply = |built_in: BuiltIn,
                 inputs: &[&Tensor],
                 of: &dyn Fn(CallSite, &[Tensor]) -> Result<Vec<Tensor>>,
                 count: usize| {
        let site = CallSite { name: built_in.name(), span: p.site.span };
        let inputs: Vec<Tensor> = inputs.iter().copied().chain(mask).cloned().collect();
        composite_at(p.site.span, built_in, &attention.attributes, &inputs, |given| {
            of(site, given).unwrap_or_else(|error| vec![Tensor::invalid(error); count])
        })
    };
    let of_queries = |site: CallSite, given: &[Tensor]| {
        let mut found = body(site, attention, &[&given[0], &given[1], &given[2]], given.get(6), &given[3])?;
        found.truncate(2);
        Ok(found)
    };
    let of_values = |site: CallSite, given: &[Tensor]| {
        // The result is linear in the values, so their gradient is that at any.
        let any = site.zeros_like(v);
        let mut found = body(site, attention, &[&given[0], &given[1], &any], given.get(4), &given[2])?;
        Ok(vec![found.remove(2)])
    };
    let mut found = apply(BuiltIn::AttentionBackward, &[q, k, v, p.g, &sums, &products], &of_queries, 2);
    found.extend(apply(BuiltIn::AttentionBackwardValues, &[q, k, p.g, &sums], &of_values, 1));
    let mut cotangents: Vec<Option<Tensor>> = found.into_iter().map(Some).collect();
    cotangents.resize(p.x.len(), None);
    Ok(cotangents)
}

/// What the composites mean: the gradients of attention's body, at queries, keys and
/// values.
fn body(
    site: CallSite,
    attention: &Composite,
    at: &[&Tensor; 3],
    mask: Option<&Tensor>,
    g: &Tensor,
) -> Result<Vec<Tensor>> {
    let own = at.map(|x| source(site, x));
    let operands: Vec<Tensor> = own.iter().chain(mask).cloned().collect();
    let result = instantiate(&attention.body, &operands)?.remove(0);
    let sources: Vec<Arc<Node>> = own.iter().map(|x| x.node().cloned()).collect::<Result<_>>()?;
    let source_cotangents =
        pull_back(&[(&result, g.clone())], &sources)?.into_iter().map(Cotangent::into_option);
    Ok(source_cotangents
        .zip(&own)
        .map(|(cotangent, x)| cotangent.unwrap_or_else(|| site.zeros_like(x)))
        .collect())
}
