//! Data parallelism within one process: a model that computes on several devices.

use std::fmt;

use crate::base::{Device, Error, OpError, Result, Span};
use crate::data::Batch;
use crate::nn::replica::Replica;
use crate::nn::{Layer, Module, ModuleExt, Visitor};
use crate::tensor::Tensor;
use crate::tensor::place::device_scope;

/// A model whose forward pass divides each batch among devices: the parameters go to each of them, each computes
/// its part, and the results come back to the first device, where the model is. Gradients flow the same way back
/// and add up in the parameters, so a training is as with one device.
///
/// All of it is in one plan, which lists the copies. Parameters are sent in every step, and one thread launches
/// for all devices: [`Ddp`](crate::dist::Ddp), in which each device has a rank and parameters stay where they
/// are, is faster wherever parameters are not tiny beside the work.
///
/// Buffers, such as running statistics, take what the part on the first device says; what other parts set is
/// lost. PyTorch: `DataParallel`.
///
/// # Examples
/// ```
/// use kiln::dist::DataParallel;
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::prelude::*;
/// use kiln::{Context, with_context};
/// // Two processors, simulated.
/// let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
/// let (rows, gradient) = with_context(&context, || -> kiln::Result<_> {
///     let model = DataParallel::new(Linear::new(3, 2, ()), &["cpu:0".parse()?, "cpu:1".parse()?])?;
///     let y = model.forward(&Tensor::ones([5, 3], ())); // three rows here, two there
///     y.sum(..).backward()?;
///     let bias = model.parameter("bias").and_then(|bias| bias.grad()).expect("a gradient");
///     Ok((y.shape()[0], bias.to_vec::<f32>()?))
/// })?;
/// assert_eq!((rows, gradient), (5, vec![5.0, 5.0]));
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct DataParallel<M> {
    module: M,
    devices: Vec<Device>,
}

impl<M: Module> DataParallel<M> {
    /// A model over these devices, the first of which it is on.
    ///
    /// # Errors
    /// No device, one that is listed twice or is not there; a parameter elsewhere than on the first, or a
    /// quantized one.
    #[track_caller]
    pub fn new(module: M, devices: &[Device]) -> Result<DataParallel<M>> {
        let span = Span::caller();
        let wrong = |expected: String, found: String| {
            Err(Error::Argument { call: "DataParallel::new", expected, found, span })
        };
        let is_twice = |(at, device): (usize, &Device)| devices[..at].contains(device);
        let Some(first) = devices.first().filter(|_| !devices.iter().enumerate().any(is_twice)) else {
            return wrong("different devices, at least one".into(), format!("{devices:?}"));
        };
        devices.iter().try_for_each(|device| device.probe())?;
        for (name, param) in module.named_parameters() {
            if param.device() != *first || param.quantized().is_some() {
                let found =
                    if param.device() == *first { "quantized".into() } else { param.device().to_string() };
                return wrong(format!("numbers on {first}"), format!("{name}, {found}"));
            }
        }
        Ok(DataParallel { module, devices: devices.to_vec() })
    }

    /// The model itself.
    pub fn module(&self) -> &M {
        &self.module
    }
    /// The devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What `forward` makes of each part of a batch, joined along the first axis: for models that are no
    /// [`Layer`], and for losses of single samples. All tensors of the batch have as many rows.
    #[track_caller]
    pub fn map<B: Batch>(&self, batch: &B, forward: impl Fn(&M, &B) -> Tensor) -> Tensor {
        let span = Span::caller();
        let _line = span.enter();
        let rows = match rows(batch, span) {
            Ok(rows) => rows,
            Err(error) => return Tensor::invalid(error),
        };
        let each = rows.div_ceil(self.devices.len()).max(1);
        let part = |(number, &device): (usize, &Device)| {
            let start = number * each;
            if start >= rows && number > 0 {
                return None;
            }
            let count = each.min(rows - start);
            let part = batch.map(&mut |x| x.narrow(0, start as i64, count).to(device));
            let _default = device_scope(device);
            let _replica = (number > 0).then(|| Replica::on(device));
            Some(forward(&self.module, &part).to(self.devices[0]))
        };
        let parts: Vec<Tensor> = self.devices.iter().enumerate().filter_map(part).collect();
        if parts.len() == 1 { parts[0].clone() } else { Tensor::cat(&parts, 0) }
    }
}

/// The extent of the first axis, which all tensors have.
fn rows(batch: &impl Batch, span: Span) -> Result<usize> {
    let (mut shapes, mut checked) = (Vec::new(), Ok(()));
    let _ = batch.map(&mut |x| {
        match x.check() {
            Ok(_) => shapes.push(x.shape()),
            Err(error) => checked = Err(error),
        }
        x.clone()
    });
    checked?;
    let rows = shapes.first().and_then(|shape| shape.first().copied());
    match rows.filter(|rows| shapes.iter().all(|shape| shape.first() == Some(rows))) {
        Some(rows) => Ok(rows),
        None => {
            let expected = "tensors with a first axis of one extent";
            let found = format!("{} tensors", shapes.len());
            Err(OpError::new("DataParallel", span, expected, found).with_shapes(shapes).into())
        }
    }
}

impl<M: Module> Module for DataParallel<M> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.module.visit(visitor);
    }
    fn kind(&self) -> &'static str {
        self.module.kind()
    }
}

impl<M: Layer> Layer for DataParallel<M> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        self.map(x, |module, x| module.forward(x))
    }
}

impl<M: Module> fmt::Debug for DataParallel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataParallel({}, {:?})", self.module.kind(), self.devices)
    }
}
