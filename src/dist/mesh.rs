//! Ranks arranged along axes.

use crate::base::{Error, Result, Span};
use crate::dist::group::Group;

/// The ranks of a group as a grid, with a name for each axis: `data`, along which ranks have other data,
/// and `model`, along which they have other parts of the model, say. The last axis varies fastest. PyTorch:
/// `DeviceMesh`.
///
/// # Examples
/// ```
/// use kiln::dist::{self, Mesh, Reduce};
/// use kiln::prelude::*;
/// let found = dist::spawn(4, |world| {
///     // Ranks 0, 1 and ranks 2, 3 share a model.
///     let mesh = Mesh::new(&world, &[("data", 2), ("model", 2)])?;
///     let rank = Tensor::scalar(world.rank() as i64, DType::I64);
///     let [data, model] = ["data", "model"].map(|axis| mesh.group(axis));
///     let sum = |group: kiln::Result<&dist::Group>| group?.all_reduce(&rank, Reduce::Sum).item::<i64>();
///     Ok((sum(data)?, sum(model)?))
/// })?;
/// assert_eq!(found, [(2, 1), (4, 1), (2, 5), (4, 5)]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mesh {
    /// By axis: its name, and the ranks that differ from this one along it alone.
    axes: Vec<(String, Group)>,
}

impl Mesh {
    /// A grid of all ranks of a group, with a name and an extent for each axis. All ranks make it.
    ///
    /// # Errors
    /// Extents whose product is not the number of ranks; a name that two axes have.
    #[track_caller]
    pub fn new(group: &Group, axes: &[(&str, usize)]) -> Result<Mesh> {
        let span = Span::caller();
        let wrong =
            |expected: String, found: String| Error::Argument { call: "Mesh::new", expected, found, span };
        let ranks = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.1));
        if ranks != Some(group.size()) {
            let extents: Vec<String> = axes.iter().map(|(name, extent)| format!("{name} {extent}")).collect();
            let expected = format!("extents whose product is {}, the number of ranks", group.size());
            return Err(wrong(expected, extents.join(", ")));
        }
        let mut made = Vec::with_capacity(axes.len());
        let mut stride = group.size();
        for (number, &(name, extent)) in axes.iter().enumerate() {
            if axes[..number].iter().any(|axis| axis.0 == name) {
                return Err(wrong("a name for each axis".into(), format!("{name} twice")));
            }
            stride /= extent;
            let first = group.rank() - group.rank() / stride % extent * stride;
            let members: Vec<usize> = (0..extent).map(|place| first + place * stride).collect();
            // This rank is one of them.
            made.extend(group.subgroup(&members)?.map(|group| (name.to_string(), group)));
        }
        Ok(Mesh { axes: made })
    }

    /// The ranks that differ from this one along an axis alone; this one's number in it is its place there.
    ///
    /// # Errors
    /// A name that no axis has.
    #[track_caller]
    pub fn group(&self, axis: &str) -> Result<&Group> {
        let span = Span::caller();
        let found = self.axes.iter().find(|(name, _)| name == axis);
        found.map(|(_, group)| group).ok_or_else(|| {
            let names: Vec<&str> = self.axes.iter().map(|(name, _)| &name[..]).collect();
            let expected = format!("one of the axes {}", names.join(", "));
            Error::Argument { call: "Mesh::group", expected, found: axis.into(), span }
        })
    }
}
