//! Regions of modules: what a layer builds is known to profiles by the layer's path in its model.

use crate::base::Region;
use crate::base::region::InRegion;
use crate::nn::param::Param;
use crate::runtime::trace;

/// Until the guard is dropped, what is built belongs to the module that holds `param` of those that a model names;
/// with `above`, to one around it. Nothing where nobody records.
pub(crate) fn in_module_of(param: &Param, above: usize) -> Option<InRegion> {
    if trace::is_on() { enter(param, above) } else { None }
}

#[cold]
fn enter(param: &Param, above: usize) -> Option<InRegion> {
    let name = param.name()?;
    let path = name.rsplitn(above + 2, '.').nth(above + 1)?;
    Some(Region::current().in_module(path).enter())
}
