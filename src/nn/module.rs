//! Modules: things that hold parameters, and what can be done with them.

#[cfg(feature = "safetensors")]
use std::path::Path;

use crate::base::{DType, Device, Error, OpError, Result, Span};
use crate::io::{LoadOpts, LoadReport, Source, StateDict};
#[cfg(feature = "safetensors")]
use crate::nn::cells::load_reading;
use crate::nn::cells::{TensorCell, cells, load_into};
use crate::nn::linear::Linear;
use crate::nn::param::{Buffer, Param, Training};
use crate::nn::quantize::{QuantizeOpts, QuantizeReport, quantize};
use crate::nn::tree::{Tree, tree};
use crate::tensor::Tensor;
use crate::tensor::quantized::Quantization;

/// Walks through a module's parts, by name.
pub trait Visitor {
    /// A parameter.
    fn param(&mut self, name: &str, param: &Param);
    /// A buffer.
    fn buffer(&mut self, name: &str, buffer: &Buffer);
    /// A switch between training and evaluation.
    fn training(&mut self, training: &Training);
    /// A module inside; its names are prefixed by this one.
    fn child(&mut self, name: &str, module: &dyn Module);
}

/// A part of a module that [`module!`](crate::module!) visits.
pub trait Part {
    /// Visits this part under its name.
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor);
}

impl Part for Param {
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.param(name, self);
    }
}
impl Part for Buffer {
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.buffer(name, self);
    }
}
impl Part for Training {
    fn visit_as(&self, _name: &str, visitor: &mut dyn Visitor) {
        visitor.training(self);
    }
}
impl<M: Module> Part for M {
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.child(name, self);
    }
}
impl<P: Part> Part for Option<P> {
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor) {
        if let Some(part) = self {
            part.visit_as(name, visitor);
        }
    }
}
impl<P: Part> Part for Vec<P> {
    fn visit_as(&self, name: &str, visitor: &mut dyn Visitor) {
        for (number, part) in self.iter().enumerate() {
            part.visit_as(&format!("{name}.{number}"), visitor);
        }
    }
}
/// Something that holds parameters, buffers and other modules. Implement it
/// by [`module!`](crate::module!).
pub trait Module {
    /// Shows every part to the visitor, in the order of declaration.
    fn visit(&self, visitor: &mut dyn Visitor);
    /// The name of its type.
    fn kind(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
    /// Itself, if it is a [`Linear`]: what can be done with those alone finds them by it.
    fn as_linear(&self) -> Option<&Linear> {
        None
    }
}

/// A module that maps a tensor to a tensor.
pub trait Layer: Module {
    /// The output for an input. Errors name the caller's line.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
}

/// What can be done with any module.
pub trait ModuleExt: Module {
    /// The parameters by name, such as `encoder.0.weight`; one that is shared
    /// appears under its first name only.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        let mut found: Vec<(String, Param)> = Vec::new();
        self.each(&mut |name, part| {
            if let Found::Param(param) = part
                && !found.iter().any(|(_, known)| known.ptr_eq(param))
            {
                found.push((name.to_string(), param.clone()));
            }
        });
        found
    }

    /// The parameters, each once.
    fn parameters(&self) -> Vec<Param> {
        self.named_parameters().into_iter().map(|(_, param)| param).collect()
    }

    /// The buffers by name.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut found = Vec::new();
        self.each(&mut |name, part| {
            if let Found::Buffer(buffer) = part {
                found.push((name.to_string(), buffer.clone()));
            }
        });
        found
    }

    /// Calls `look` with every part and its full name. From then on plans and profiles call parameters so, and
    /// what a layer computes is theirs whose parameters it has.
    fn each(&self, look: &mut dyn FnMut(&str, Found)) {
        self.visit(&mut PrefixVisitor { prefix: String::new(), look });
    }

    /// The module's parts as a tree that prints with shapes and numbers of elements, as the module itself
    /// does if [`module!`](crate::module!) made it one.
    ///
    /// ```
    /// use kiln::nn::{Linear, ModuleExt, Relu, Sequential};
    /// let net = Sequential::new().push(Linear::new(4, 8, ())).push(Relu).push(Linear::new(8, 2, ()));
    /// let expected = "\
    /// Sequential    58
    /// ├─ 0: Linear  40  weight [8, 4], bias [8]
    /// ├─ 1: Relu     0
    /// └─ 2: Linear  18  weight [2, 8], bias [2]
    /// ";
    /// assert_eq!(net.tree().to_string(), expected);
    /// ```
    fn tree(&self) -> Tree {
        tree(self)
    }

    /// The parameter of a name, such as `0.weight`.
    ///
    /// ```
    /// use kiln::nn::{Linear, ModuleExt, Sequential};
    /// let net = Sequential::new().push(Linear::new(4, 8, ()));
    /// assert_eq!(net.parameter("0.weight").map(|weight| weight.shape().numel()), Some(32));
    /// ```
    fn parameter(&self, name: &str) -> Option<Param> {
        self.named_parameters().into_iter().find(|(known, _)| known == name).map(|(_, param)| param)
    }

    /// Number of elements of the parameters.
    fn num_params(&self) -> usize {
        self.parameters().iter().map(|param| param.shape().numel()).sum()
    }

    /// Switches to training: dropout drops, batch normalization uses and
    /// gathers the batch's statistics.
    fn train(&self) {
        self.set_training(true);
    }

    /// Switches to evaluation.
    fn eval(&self) {
        self.set_training(false);
    }

    /// Switches to training or evaluation.
    fn set_training(&self, on: bool) {
        self.each(&mut |_, part| {
            if let Found::Training(training) = part {
                training.set(on);
            }
        });
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Param::zero_grad);
    }

    /// Moves parameters, their gradients and buffers to a device. What has a value is sent once, by the first
    /// realize that reads it.
    ///
    /// # Errors
    /// A device that is not there; a module on the meta device, which has no values to send
    /// ([`ModuleExt::to_empty`], [`ModuleExt::load`]); the error recorded in a parameter. The module then stays
    /// where it was.
    #[track_caller]
    fn to_device(&self, device: Device) -> Result<()> {
        let span = Span::caller();
        device.probe()?;
        let to = |x: &Tensor| {
            if x.device().is_meta() && !device.is_meta() {
                let expected = "values to send (or `to_empty`, or a file to load)";
                return Err(OpError::new("to_device", span, expected, "a module on the meta device").into());
            }
            Ok(if x.device() == device { x.clone() } else { x.to(device) })
        };
        self.replace_all(span, &to)
    }

    /// Puts zeros in the place of parameters and buffers, on a device: memory for a module that was built on
    /// the meta device, to be initialized there. Gradients are forgotten.
    ///
    /// # Errors
    /// A device that is not there, or the error recorded in a parameter. The module is then as it was.
    #[track_caller]
    fn to_empty(&self, device: Device) -> Result<()> {
        let span = Span::caller();
        device.probe()?;
        self.zero_grad();
        self.replace_all(span, &|x| Ok(Tensor::empty(x.shape(), (device, x.dtype()))))
    }

    /// Converts floating parameters, their gradients and floating buffers to a floating type.
    ///
    /// # Errors
    /// A type that is not floating, or the error recorded in a parameter. The module is then as it was.
    #[track_caller]
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        let span = Span::caller();
        if !dtype.is_float() {
            return Err(OpError::new("to_dtype", span, "a floating type", dtype.to_string()).into());
        }
        self.replace_all(span, &|x| Ok(if x.dtype().is_float() { x.to_dtype(dtype) } else { x.clone() }))
    }

    /// Quantizes the weights: every parameter that is a matrix of floats with rows of whole blocks of 32, which
    /// is then packed and frozen ([`Param::quantize`]). The report says what each lost.
    ///
    /// # Errors
    /// As [`Param::quantize`]. The module is then as it was.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Linear, ModuleExt, QuantizeOpts, Sequential};
    /// use kiln::Quantization;
    /// let net = Sequential::new().push(Linear::new(32, 64, ())).push(Linear::new(64, 2, ()));
    /// let report = net.quantize(Quantization::Q8_0, QuantizeOpts::default())?;
    /// assert!(report.weights.iter().all(|weight| weight.error < 0.01));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    fn quantize(&self, quantization: Quantization, opts: QuantizeOpts) -> Result<QuantizeReport> {
        quantize(self, quantization, &opts, Span::caller())
    }

    #[doc(hidden)]
    fn replace_all(&self, span: Span, map: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let _line = span.enter();
        let cells: Vec<TensorCell> = cells(self).into_iter().map(|(_, cell)| cell).collect();
        let replaced = cells.iter().map(|cell| cell.mapped(map)).collect::<Result<Vec<_>>>()?;
        cells
            .iter()
            .zip(replaced)
            .try_for_each(|(cell, (tensor, grad))| cell.put_mapped(&tensor, grad.as_ref(), span))
    }

    /// Parameters and buffers by name.
    ///
    /// # Errors
    /// The error recorded in one of them, or a name that two have.
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (name, cell) in cells(self) {
            state.insert(name, &cell.get())?;
        }
        Ok(state)
    }

    /// Puts parameters and buffers in, on a device: also into a module that
    /// was built on the meta device. Gradients are forgotten.
    ///
    /// # Errors
    /// [`Error::State`] with every name that is missing or not expected and
    /// every type and shape that differs; the error recorded in a parameter;
    /// what realizing them says. The module is then as it was.
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict, device: Device) -> Result<()> {
        let opts = LoadOpts::default().device(device).copy(true);
        load_into(self, Source::of(state), &opts, Span::caller()).map(drop)
    }

    /// [`ModuleExt::load_state_dict`] of a state whose names, shapes or types are not the module's: the
    /// options say how they differ, and the report what was loaded.
    ///
    /// # Errors
    /// As [`ModuleExt::load_state_dict`]; unless the options are strict, only those of making the tensors.
    #[track_caller]
    fn load_state_dict_with(&self, state: &StateDict, opts: LoadOpts) -> Result<LoadReport> {
        load_into(self, Source::of(state), &opts, Span::caller())
    }

    /// Writes [`ModuleExt::state_dict`] to a file: see [`StateDict::save`].
    ///
    /// # Errors
    /// As both.
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.state_dict()?.save(path)
    }

    /// Loads a file of the safetensors format, or an index and its files, onto
    /// a device: as [`ModuleExt::load_state_dict`].
    ///
    /// # Errors
    /// One with everything that is wrong with the files, and everything in
    /// them that does not fit. The module is then as it was.
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn load(&self, path: impl AsRef<Path>, device: Device) -> Result<()> {
        self.load_with(path, LoadOpts::default().device(device).copy(true)).map(drop)
    }

    /// [`ModuleExt::load`] of a file whose names, shapes or types are not the module's: the options say
    /// how they differ, and the report what was loaded. On the CPU, parameters are the pages of the file
    /// where they can be, so that it takes no memory twice.
    ///
    /// # Errors
    /// As [`ModuleExt::load`]; unless the options are strict, only what is wrong with the files.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Linear, ModuleExt};
    /// use kiln::prelude::*;
    /// use kiln::{LoadOpts, StateDict};
    /// # let path = std::env::temp_dir().join(format!("kiln-load-with-{}", std::process::id()));
    /// let mut file = StateDict::new();
    /// file.insert("model.proj.weight", &Tensor::ones([1, 2], ()))?;
    /// file.save(&path)?;
    ///
    /// let net = Linear::without_bias(2, 1, ());
    /// let report = net.load_with(&path, LoadOpts::default().strip_prefix("model.proj"))?;
    /// assert_eq!(report.loaded, ["weight"]);
    /// assert_eq!(net.parameter("weight").unwrap().get().to_vec::<f32>()?, [1.0, 1.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn load_with(&self, path: impl AsRef<Path>, opts: LoadOpts) -> Result<LoadReport> {
        let (path, span) = (path.as_ref(), Span::caller());
        load_reading(self, path, crate::io::read(path, span)?, &opts, span)
    }

    /// [`ModuleExt::load_with`] of a file that is read by ranges, such as one by address, as a future.
    ///
    /// # Errors
    /// As [`ModuleExt::load_with`], and those of the reader, with its name.
    ///
    /// # Examples
    /// ```
    /// use kiln::LoadOpts;
    /// use kiln::nn::{Linear, ModuleExt};
    /// let header = br#"{"weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}"#;
    /// let file = [&61u64.to_le_bytes()[..], header, &0.5f32.to_le_bytes()].concat();
    /// let net = Linear::without_bias(1, 1, ());
    /// let report = pollster::block_on(net.load_async(&file[..], LoadOpts::default()))?;
    /// assert_eq!((report.loaded.len(), net.weight.get().item::<f32>()?), (1, 0.5));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn load_async(
        &self,
        reader: impl crate::io::RangeReader,
        opts: LoadOpts,
    ) -> impl Future<Output = Result<LoadReport>> {
        let span = Span::caller();
        crate::plan::wait::within(crate::plan::context::current(), async move {
            let (path, reading) = crate::io::fetch(reader, span).await?;
            load_reading(self, &path, reading, &opts, span)
        })
    }

    /// Fails unless everything is on one device, which it returns; the CPU
    /// for a module that holds nothing.
    ///
    /// # Errors
    /// Two parts on different devices, by name.
    #[track_caller]
    fn check_device(&self) -> Result<Device> {
        let span = Span::caller();
        let mut first: Option<(String, Device)> = None;
        let mut result: Result<(), Error> = Ok(());
        self.each(&mut |name, part| {
            let device = match part {
                Found::Param(param) => param.device(),
                Found::Buffer(buffer) => buffer.get().device(),
                Found::Training(_) => return,
            };
            match &first {
                None => first = Some((name.to_string(), device)),
                Some((known, at)) if *at != device && result.is_ok() => {
                    let expected = format!("all parts on {at}, where {known} is");
                    result =
                        Err(OpError::new("check_device", span, expected, format!("{name} on {device}"))
                            .into());
                }
                Some(_) => {}
            }
        });
        result.map(|()| first.map_or(Device::cpu(), |(_, device)| device))
    }
}

impl<M: Module + ?Sized> ModuleExt for M {}

/// A part of a module that [`ModuleExt::each`] meets.
pub enum Found<'a> {
    /// A parameter.
    Param(&'a Param),
    /// A buffer.
    Buffer(&'a Buffer),
    /// A switch between training and evaluation.
    Training(&'a Training),
}

struct PrefixVisitor<'a> {
    prefix: String,
    look: &'a mut dyn FnMut(&str, Found),
}

impl PrefixVisitor<'_> {
    fn full(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_string() } else { format!("{}.{name}", self.prefix) }
    }
}

impl Visitor for PrefixVisitor<'_> {
    fn param(&mut self, name: &str, param: &Param) {
        let name = self.full(name);
        param.name_as(&name);
        (self.look)(&name, Found::Param(param));
    }
    fn buffer(&mut self, name: &str, buffer: &Buffer) {
        let name = self.full(name);
        (self.look)(&name, Found::Buffer(buffer));
    }
    fn training(&mut self, training: &Training) {
        let name = self.prefix.clone();
        (self.look)(&name, Found::Training(training));
    }
    fn child(&mut self, name: &str, module: &dyn Module) {
        let prefix = self.full(name);
        let before = std::mem::replace(&mut self.prefix, prefix);
        module.visit(self);
        self.prefix = before;
    }
}

/// Implements [`Module`](crate::nn::Module) for a struct, naming all its
/// fields: the parts in order, then behind `skip` those that are none. A
/// field that is forgotten does not compile. The struct then prints as a
/// [`Tree`](crate::nn::Tree).
///
/// ```
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::prelude::*;
///
/// struct Mlp { l1: Linear, l2: Linear, slope: f64 }
/// kiln::module!(Mlp { l1, l2; skip slope });
///
/// impl Layer for Mlp {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         self.l2.forward(&self.l1.forward(x).leaky_relu(self.slope))
///     }
/// }
///
/// let mlp = Mlp { l1: Linear::new(4, 8, ()), l2: Linear::new(8, 2, ()), slope: 0.1 };
/// assert_eq!(mlp.num_params(), 4 * 8 + 8 + 8 * 2 + 2);
/// assert_eq!(mlp.named_parameters()[3].0, "l2.bias");
/// ```
#[macro_export]
macro_rules! module {
    ($name:ident { $($part:ident),* $(,)? $(; skip $($skipped:ident),* $(,)?)? }) => {
        impl $crate::nn::Module for $name {
            #[allow(unused_variables)] // by one without parts
            fn visit(&self, visitor: &mut dyn $crate::nn::Visitor) {
                let $name { $($part,)* $($($skipped: _,)*)? } = self;
                $($crate::nn::Part::visit_as($part, stringify!($part), visitor);)*
            }
        }
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&$crate::nn::ModuleExt::tree(self), f)
            }
        }
    };
}
