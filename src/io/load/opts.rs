//! How a state differs from what it is loaded into.

use std::fmt;
use std::sync::Arc;

use crate::base::{Device, Error, Result, Span};
use crate::io::load::names::Pattern;
use crate::tensor::Tensor;

/// How to load a state whose names, shapes or types are not the module's, for
/// [`ModuleExt::load_with`](crate::nn::ModuleExt::load_with) and
/// [`ModuleExt::load_state_dict_with`](crate::nn::ModuleExt::load_state_dict_with).
///
/// Names are changed first, by [`rename`](LoadOpts::rename) and its kin in the order of the calls.
/// Everything else speaks of names after that.
///
/// A *pattern* is the start of a dotted name, up to a dot or the end: `blocks.{}.attention` fits
/// `blocks.3.attention.weight`. A hole `{}` stands for one or more characters without a dot. What
/// follows the start stays.
///
/// # Examples
/// ```
/// use kiln::nn::{Linear, ModuleExt, Sequential};
/// use kiln::prelude::*;
/// use kiln::{LoadOpts, StateDict};
/// let mut file = StateDict::new();
/// file.insert("model.layers.0.proj.weight", &Tensor::ones([2, 3], ()).half())?;
/// file.insert("model.layers.0.proj.bias", &Tensor::zeros([2], ()))?;
///
/// let net = Sequential::new().push(Linear::new(3, 2, ()));
/// let opts = LoadOpts::default().rename("model.layers.{}.proj", "{}").convert(true);
/// let report = net.load_state_dict_with(&file, opts)?;
/// assert_eq!(report.loaded, ["0.weight", "0.bias"]);
/// assert_eq!(report.converted[0].name, "0.weight"); // from f16 to f32
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadOpts {
    /// Fail unless every tensor finds its place and every place its tensor. Otherwise what fits is
    /// loaded, and the report tells of the rest. PyTorch: `strict`, whose `False` still refuses other shapes.
    pub strict: bool,
    /// Convert types to the module's: floats to floats, integers to integers, and packed types by
    /// [`RawTensor::to_tensor`](crate::RawTensor::to_tensor). Otherwise another type does not fit.
    pub convert: bool,
    /// Keep packed what the state has in blocks of few bits: parameters that take it are quantized and frozen, as by
    /// [`Param::set_quantized`](crate::nn::Param::set_quantized), in the format that
    /// [`BlockFormat::quantization`](crate::io::gguf::BlockFormat::quantization) says. What is split, joined or
    /// transformed is quantized again, which loses next to nothing. Without it blocks become floats where
    /// `convert` allows.
    pub quantized: bool,
    /// Copy what could be used where it lies. Otherwise parameters on the CPU are the state's own tensors:
    /// those of an opened file are in its pages, which the system reads on demand and shares among
    /// processes. Then another program must replace the file, not write into it.
    pub copy: bool,
    /// Where to load to; `None` is where the module is, or the default device for parts on the meta device.
    pub device: Option<Device>,
    pub(super) place: Option<Arc<dyn Fn(&str) -> Device + Send + Sync>>,
    pub(super) renames: Vec<Rename>,
    pub(super) transposed: Vec<Pattern>,
    pub(super) transforms: Vec<(Pattern, Transform)>,
    pub(super) ignored: Vec<Pattern>,
    pub(super) split: Vec<Pieces>,
    pub(super) joined: Vec<Pieces>,
    pub(super) tied: Vec<(Pattern, Pattern)>,
}

/// One change of names.
#[derive(Clone)]
pub(super) enum Rename {
    Pattern(Pattern, Pattern),
    By(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

/// What a tensor of a file becomes.
#[derive(Clone)]
pub(super) struct Transform(pub Arc<dyn Fn(&Tensor) -> Tensor + Send + Sync>);

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// One tensor and those it is made of, along an axis.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub whole: Pattern,
    pub axis: usize,
    pub parts: Vec<Pattern>,
}

impl Pieces {
    fn new<'a>(whole: &str, axis: usize, parts: impl IntoIterator<Item = &'a str>) -> Pieces {
        Pieces { whole: Pattern::new(whole), axis, parts: parts.into_iter().map(Pattern::new).collect() }
    }
}

impl Default for LoadOpts {
    fn default() -> LoadOpts {
        LoadOpts {
            strict: true,
            convert: false,
            quantized: false,
            copy: false,
            device: None,
            place: None,
            renames: Vec::new(),
            transposed: Vec::new(),
            transforms: Vec::new(),
            ignored: Vec::new(),
            split: Vec::new(),
            joined: Vec::new(),
            tied: Vec::new(),
        }
    }
}

impl LoadOpts {
    /// With this `strict`.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
    /// With this `convert`.
    #[must_use]
    pub fn convert(mut self, convert: bool) -> Self {
        self.convert = convert;
        self
    }
    /// With this `quantized`.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Linear, ModuleExt};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, Quantization, RawTensor, StateDict};
    /// let mut block = half::f16::from_f32(0.5).to_le_bytes().to_vec(); // a scale and 32 codes
    /// block.extend([2u8; 32]);
    /// let mut file = StateDict::new();
    /// file.insert_raw("weight", &RawTensor::new("Q8_0", [1, 32], block)?)?;
    ///
    /// let net = Linear::without_bias(32, 1, ());
    /// net.load_state_dict_with(&file, LoadOpts::default().quantized(true))?;
    /// assert_eq!(net.weight.quantized().unwrap().quantization(), Quantization::Q8_0);
    /// assert_eq!(net.weight.get().to_vec::<f32>()?, [1.0; 32]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn quantized(mut self, quantized: bool) -> Self {
        self.quantized = quantized;
        self
    }
    /// With this `copy`.
    #[must_use]
    pub fn copy(mut self, copy: bool) -> Self {
        self.copy = copy;
        self
    }
    /// With this `device`.
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// The device of each tensor, by the module's name of it; goes before `device`.
    #[must_use]
    pub fn device_of(mut self, place: impl Fn(&str) -> Device + Send + Sync + 'static) -> Self {
        self.place = Some(Arc::new(place));
        self
    }

    /// Names that fit the pattern `from` begin with `to` instead, whose holes take what those of `from`
    /// stand for, in order.
    ///
    /// # Examples
    /// ```
    /// use kiln::LoadOpts;
    /// let opts = LoadOpts::default().rename("model.layers.{}.self_attn.q_proj", "blocks.{}.attention.query");
    /// assert_eq!(opts.renamed("model.layers.7.self_attn.q_proj.weight"), "blocks.7.attention.query.weight");
    /// ```
    #[must_use]
    pub fn rename(mut self, from: &str, to: &str) -> Self {
        self.renames.push(Rename::Pattern(Pattern::new(from), Pattern::new(to)));
        self
    }
    /// [`LoadOpts::rename`] by a table: the first row that fits a name changes it.
    ///
    /// # Examples
    /// ```
    /// use kiln::LoadOpts;
    /// let opts = LoadOpts::default().rename_all([("a.b", "x"), ("a", "b"), ("b", "c")]);
    /// assert_eq!(["a.b.w", "a.w", "b.w"].map(|name| opts.renamed(name)), ["x.w", "b.w", "c.w"]);
    /// ```
    #[must_use]
    pub fn rename_all<'a>(self, table: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let rows = table.into_iter().map(|(from, to)| (Pattern::new(from), Pattern::new(to)));
        let rows: Vec<(Pattern, Pattern)> = rows.collect();
        self.rename_with(move |name| {
            let row = rows.iter().find_map(|(from, to)| Some(to.fill(&from.fit(name)?)));
            row.unwrap_or_else(|| name.into())
        })
    }
    /// Names become what `rename` makes of them.
    #[must_use]
    pub fn rename_with(mut self, rename: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.renames.push(Rename::By(Arc::new(rename)));
        self
    }
    /// Names that begin with `prefix` and a dot lose both.
    #[must_use]
    pub fn strip_prefix(self, prefix: &str) -> Self {
        self.rename(prefix, "")
    }
    /// Names get `prefix` and a dot in front.
    #[must_use]
    pub fn add_prefix(self, prefix: &str) -> Self {
        self.rename("", prefix)
    }
    /// What the renaming makes of a name of the file.
    pub fn renamed(&self, name: &str) -> String {
        self.renames.iter().fold(name.into(), |name, rename| match rename {
            Rename::Pattern(from, to) => from.fit(&name).map(|fit| to.fill(&fit)).unwrap_or(name),
            Rename::By(rename) => rename(&name),
        })
    }

    /// The file has the last two axes of these tensors in the other order, before any `split` or `join`;
    /// tensors of fewer axes stay. GPT-2's `Conv1D` weights are so.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Linear, ModuleExt};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, StateDict};
    /// let mut file = StateDict::new();
    /// file.insert("weight", &Tensor::from([[1f32, 2.0, 3.0]]))?;
    /// let net = Linear::without_bias(1, 3, ());
    /// net.load_state_dict_with(&file, LoadOpts::default().transpose("weight"))?;
    /// assert_eq!(net.parameter("weight").unwrap().shape()[..], [3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn transpose(mut self, pattern: &str) -> Self {
        self.transposed.push(Pattern::new(pattern));
        self
    }
    /// The module has what `transform` makes of these tensors, behind any `transpose` and before any `split`
    /// or `join`: rows in another order, an axis more, a sign. It is also called with tensors on the meta
    /// device, for the shape of what it makes.
    ///
    /// # Examples
    /// GGUF files of llama models have the rows of queries and keys so that the two numbers that are rotated
    /// together are neighbours; PyTorch's have them half a head apart.
    /// ```
    /// use kiln::nn::{Linear, ModuleExt};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, StateDict};
    /// let (heads, half) = (1, 2);
    /// let halves = move |w: &Tensor| {
    ///     w.reshape([heads, half, 2, -1]).transpose(1, 2).reshape([heads * half * 2, -1])
    /// };
    /// let mut file = StateDict::new();
    /// file.insert("blk.0.attn_q.weight", &Tensor::from([[0f32], [1.0], [2.0], [3.0]]))?;
    /// let query = Linear::without_bias(1, 4, ());
    /// let opts = LoadOpts::default().strip_prefix("blk.0.attn_q").transform("weight", halves);
    /// query.load_state_dict_with(&file, opts)?;
    /// assert_eq!(query.weight.get().to_vec::<f32>()?, [0.0, 2.0, 1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn transform(
        mut self,
        pattern: &str,
        transform: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static,
    ) -> Self {
        self.transforms.push((Pattern::new(pattern), Transform(Arc::new(transform))));
        self
    }
    /// The file has one tensor `whole`, and the module its `parts` along `axis`, as long as the module
    /// says; equally long where it has not all of them.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Linear, ModuleExt, Sequential};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, StateDict};
    /// let mut file = StateDict::new();
    /// file.insert("h.kv.weight", &Tensor::arange(0.0, 3.0, 1.0, ()).reshape([3, 1]))?;
    /// let net = Sequential::new().push(Linear::without_bias(1, 2, ())).push(Linear::without_bias(1, 1, ()));
    /// net.load_state_dict_with(&file, LoadOpts::default().split("h.kv", 0, ["0", "1"]))?;
    /// assert_eq!(net.parameter("1.weight").unwrap().get().to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn split<'a>(mut self, whole: &str, axis: usize, parts: impl IntoIterator<Item = &'a str>) -> Self {
        self.split.push(Pieces::new(whole, axis, parts));
        self
    }
    /// The module has one tensor `whole`, and the file its `parts`, which follow each other along `axis`.
    #[must_use]
    pub fn join<'a>(mut self, parts: impl IntoIterator<Item = &'a str>, axis: usize, whole: &str) -> Self {
        self.joined.push(Pieces::new(whole, axis, parts));
        self
    }
    /// Where the file has no `name`, the tensor `same` is also that one, as an output layer that shares the
    /// embedding's weights. Parameters that the module itself shares need no such rule: any of their names
    /// will do.
    #[must_use]
    pub fn tie(mut self, name: &str, same: &str) -> Self {
        self.tied.push((Pattern::new(name), Pattern::new(same)));
        self
    }
    /// Tensors of the file that nothing needs to take.
    #[must_use]
    pub fn ignore(mut self, pattern: &str) -> Self {
        self.ignored.push(Pattern::new(pattern));
        self
    }

    /// Where a tensor is to be, if the options say.
    pub(crate) fn device_for(&self, name: &str) -> Option<Device> {
        self.place.as_ref().map(|place| place(name)).or(self.device)
    }

    /// Fails unless patterns can be filled: none has more holes than the one that fills them.
    ///
    /// # Errors
    /// The first that cannot.
    pub(super) fn check(&self, span: Span) -> Result<()> {
        let renames = self.renames.iter().filter_map(|rename| match rename {
            Rename::Pattern(from, to) => Some((from, to)),
            Rename::By(_) => None,
        });
        let tied = self.tied.iter().map(|(name, same)| (name, same));
        let pieces = self.split.iter().chain(&self.joined);
        let pieces = pieces.flat_map(|pieces| pieces.parts.iter().map(|part| (&pieces.whole, part)));
        let pieces = pieces.flat_map(|(whole, part)| [(whole, part), (part, whole)]);
        let unfilled = renames.chain(tied).chain(pieces).find(|(from, to)| to.holes() > from.holes());
        let Some((from, to)) = unfilled else { return Ok(()) };
        let expected = format!("at most {} holes, as {:?} has", from.holes(), from.text());
        Err(Error::Argument { call: "LoadOpts", expected, found: format!("{:?}", to.text()), span })
    }
}

impl fmt::Debug for LoadOpts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOpts")
            .field("strict", &self.strict)
            .field("convert", &self.convert)
            .field("quantized", &self.quantized)
            .field("copy", &self.copy)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
