//! Loss scaling: gradients that 16 bits can hold.
//!
//! `F16` ends at 6e-8, and gradients are often smaller: they become 0. A loss times a large number has
//! gradients larger by that number, which is taken out again before the step. Where the number is too
//! large, a gradient is infinite: the step is skipped and the number lowered; after many good steps it is
//! raised. What is decided, the device decides, in the plan of the step: nobody waits.

use crate::base::{DType, Device, Error, Result, Span};
use crate::grad::without_grad;
use crate::io::{ExpectedTensor, StateDict};
use crate::ir::collective::Reduce;
use crate::ir::pending::{Pending, register};
use crate::nn::Param;
use crate::optim::clip::Gradients;
use crate::optim::core::Optimizer;
use crate::optim::division::Division;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;

options! {
    /// Options of [`GradScaler`].
    GradScalerOpts {
        /// The first scale (65536).
        init_scale: f64 = 65536.0;
        /// What the scale is multiplied by after enough good steps: more than 1 (2).
        growth_factor: f64 = 2.0;
        /// What the scale is multiplied by after a gradient that was not finite: more than 0, less than 1 (0.5).
        backoff_factor: f64 = 0.5;
        /// Good steps in a row after which the scale grows: at least 1 (2000).
        growth_interval: u32 = 2000;
        /// Whether anything is scaled (yes); otherwise steps are the optimizer's own.
        enabled: bool = true;
    }
}

/// Scales losses so that gradients in 16 bits do not become 0, and skips steps whose gradients overflowed
/// (Micikevicius et al. 2018).
///
/// A step: [`GradScaler::scale`] the loss, take gradients, [`GradScaler::step`] each optimizer,
/// [`GradScaler::update`]. To clip, [`GradScaler::unscale`] before. `BF16` has the range of `F32` and needs
/// none of it. A skipped step leaves parameters, optimizer state and step counts as they were; a
/// [`Scheduler`](crate::optim::Scheduler) is the host's, which tells it of [`GradScaler::skipped`] by
/// [`Scheduler::step_unless`](crate::optim::Scheduler::step_unless).
/// PyTorch: `torch.amp.GradScaler`.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::optim::{Adam, AdamOpts, GradScaler, Optimizer, clip_grad_norm};
/// use kiln::prelude::*;
/// use kiln::with_autocast;
/// let model = Linear::new(4, 1, ());
/// let (mut optimizer, mut scaler) = (Adam::new(model.parameters(), AdamOpts::default()), GradScaler::new(()));
/// let x = Tensor::ones([8, 4], ());
/// for _ in 0..3 {
///     optimizer.zero_grad();
///     let loss = with_autocast(DType::F16, || model.forward(&x)).to_dtype(DType::F32).square().mean(..);
///     scaler.scale(&loss).backward()?;
///     scaler.unscale(&optimizer)?;
///     clip_grad_norm(&model.parameters(), 1.0)?;
///     scaler.step(&mut optimizer)?;
///     scaler.update()?;
/// }
/// // These wait.
/// assert!(!scaler.skipped().item::<bool>()?);
/// assert_eq!(scaler.get_scale()?, 65536.0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct GradScaler {
    opts: GradScalerOpts,
    /// Who gave them.
    given: CallSite,
    /// `F32` of rank 0.
    scale: Tensor,
    /// Good steps since the scale changed: `I32` of rank 0.
    growth_tracker: Tensor,
    /// Whether the last step was skipped.
    skipped: Tensor,
    /// Since the last update.
    looked_at: Vec<LookedAt>,
}

/// Gradients of an optimizer that are unscaled.
#[derive(Debug)]
struct LookedAt {
    params: Vec<Param>,
    /// Whether one was not finite.
    overflowed: Tensor,
    stepped: bool,
}

impl From<()> for GradScalerOpts {
    fn from((): ()) -> GradScalerOpts {
        GradScalerOpts::default()
    }
}

impl GradScaler {
    /// A scaler with its first scale. Options that make no sense make [`GradScaler::step`] and
    /// [`GradScaler::unscale`] fail.
    #[track_caller]
    pub fn new(opts: impl Into<GradScalerOpts>) -> GradScaler {
        let opts = opts.into();
        let (scale, growth_tracker) = state_of(opts.init_scale, 0, Device::cpu());
        let (given, skipped) = (CallSite::here("GradScaler"), Tensor::full((), false, Device::cpu()));
        GradScaler { opts, given, scale, growth_tracker, skipped, looked_at: Vec::new() }
    }

    /// The loss times the scale, in `F32` if it is in 16 bits. The scale lives where the first loss is.
    #[track_caller]
    pub fn scale(&mut self, loss: &Tensor) -> Tensor {
        let site = CallSite::here("scale");
        if !self.opts.enabled || loss.ty().is_none() {
            return loss.clone();
        }
        let device = loss.device();
        self.place(device);
        let dtype = loss.dtype().compute();
        site.mul(site.cast(loss, dtype), site.cast(&self.scale_on(device), dtype))
    }

    /// Divides the gradients of an optimizer's parameters by the scale, and notes whether they are finite.
    /// [`GradScaler::step`] does it where it has not been done.
    ///
    /// # Errors
    /// Gradients that are unscaled already, that are in `F16` (keep parameters in `F32`), or that there are
    /// none of; options that make no sense; the error recorded in a gradient.
    #[track_caller]
    pub fn unscale(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        let site = CallSite::here("unscale");
        self.check()?;
        if !self.opts.enabled {
            return Ok(());
        }
        let params = optimizer.parameters();
        match self.find(&params) {
            Some(_) => Err(wrong(site, "gradients that are scaled", "unscaled ones; call update() first")),
            None => self.look_at(site, params),
        }
    }

    /// Steps an optimizer unless one of its gradients is not finite.
    ///
    /// # Errors
    /// As [`GradScaler::unscale`] and [`Optimizer::step`], after which nothing has changed; a second step
    /// before [`GradScaler::update`].
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let site = CallSite::here("step");
        self.check()?;
        if !self.opts.enabled {
            return optimizer.step();
        }
        let params = optimizer.parameters();
        let at = match self.find(&params) {
            Some(at) => at,
            None => {
                self.look_at(site, params)?;
                self.looked_at.len() - 1
            }
        };
        if self.looked_at[at].stepped {
            return Err(wrong(site, "a step of another optimizer", "a second one before update()"));
        }
        let overflowed = self.looked_at[at].overflowed.clone();
        if let Err(error) = optimizer.step_unless(&overflowed) {
            // The next gradients are others.
            self.looked_at.remove(at);
            return Err(error);
        }
        self.looked_at[at].stepped = true;
        self.skipped = overflowed;
        Ok(())
    }

    /// Whether anything is scaled, as the options say. PyTorch: `GradScaler.is_enabled`.
    ///
    /// ```
    /// use kiln::optim::{GradScaler, GradScalerOpts};
    /// assert!(!GradScaler::new(GradScalerOpts::default().enabled(false)).is_enabled());
    /// ```
    pub fn is_enabled(&self) -> bool {
        self.opts.enabled
    }

    /// Whether the last step was skipped: a truth value of rank 0, in memory, for which nobody waits until
    /// it is read.
    pub fn skipped(&self) -> Tensor {
        self.skipped.clone()
    }

    /// Lowers the scale if a gradient was not finite since the last update, and raises it after enough good
    /// steps. Nothing is computed: the next step does that too.
    ///
    /// # Errors
    /// No gradients that have been looked at.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        let site = CallSite::here("update");
        if !self.opts.enabled {
            return Ok(());
        }
        let device = self.scale.device();
        let found = std::mem::take(&mut self.looked_at).into_iter().map(|seen| seen.overflowed.to(device));
        let Some(overflowed) = found.reduce(|one, other| one.logical_or(&other)) else {
            return Err(wrong(site, "a step since the last update", "none"));
        };
        let scale = &self.scale;
        let good = &self.growth_tracker + 1;
        let grown = scale * self.opts.growth_factor;
        let grows = good.ge(self.opts.growth_interval as i64);
        let raised = grows.logical_and(&grown.lt(f64::INFINITY)).select(&grown, scale);
        self.scale = overflowed.select(scale * self.opts.backoff_factor, &raised);
        self.growth_tracker = overflowed.logical_or(&grows).select(0, &good);
        register([Pending::root(self.scale.node()?), Pending::root(self.growth_tracker.node()?)]);
        Ok(())
    }

    /// The scale; 1 if scaling is not enabled. Waits for the device.
    ///
    /// # Errors
    /// As [`Tensor::item`].
    #[track_caller]
    pub fn get_scale(&self) -> Result<f64> {
        if self.opts.enabled { self.scale.item::<f32>().map(f64::from) } else { Ok(1.0) }
    }

    /// The scale, the options, and the good steps since the scale changed; empty if scaling is not enabled.
    ///
    /// # Errors
    /// The error recorded in the scale.
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        if self.opts.enabled {
            let number = |number: f64| Tensor::from_vec(vec![number], (), Device::cpu());
            state.insert("scale", &self.scale)?;
            state.insert("growth_tracker", &self.growth_tracker)?;
            state.insert("growth_factor", &number(self.opts.growth_factor))?;
            state.insert("backoff_factor", &number(self.opts.backoff_factor))?;
            state.insert("growth_interval", &number(self.opts.growth_interval.into()))?;
        }
        Ok(state)
    }

    /// Goes on from a saved state. Does nothing if scaling is not enabled.
    ///
    /// # Errors
    /// [`Error::State`] with everything that does not fit; options that make no sense. The scaler is then as
    /// it was.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        if !self.opts.enabled {
            return Ok(());
        }
        let span = Span::caller();
        let mut targets = vec![
            ExpectedTensor::number::<f32>("scale".into()),
            ExpectedTensor::number::<i32>("growth_tracker".into()),
        ];
        let options = ["growth_factor", "backoff_factor", "growth_interval"];
        targets.extend(options.map(|name| ExpectedTensor::number::<f64>(name.into())));
        let state = state.fitted(&targets, "a scaler's state", span)?;
        let [growth_factor, backoff_factor, interval] = options.map(|name| state.number::<f64>(name));
        let opts = self.opts.clone().growth_factor(growth_factor?).backoff_factor(backoff_factor?);
        let opts = opts.growth_interval(interval? as u32);
        check(&opts, CallSite { name: "load_state_dict", span })?;
        let (scale, tracker) = (state.number::<f32>("scale")?, state.number::<i32>("growth_tracker")?);
        self.opts = opts;
        (self.scale, self.growth_tracker) = state_of(scale.into(), tracker, self.scale.device());
        Ok(())
    }

    fn check(&self) -> Result<()> {
        check(&self.opts, self.given)
    }

    /// The scale moves to a device, if nothing has been scaled yet.
    fn place(&mut self, device: Device) {
        if self.scale.device() != device && self.looked_at.is_empty() {
            (self.scale, self.growth_tracker) = (self.scale.to(device), self.growth_tracker.to(device));
        }
    }

    fn scale_on(&self, device: Device) -> Tensor {
        if self.scale.device() == device { self.scale.clone() } else { self.scale.to(device) }
    }

    /// The gradients of these parameters, if they are unscaled.
    fn find(&self, params: &[Param]) -> Option<usize> {
        let same = |seen: &LookedAt| {
            seen.params.len() == params.len() && seen.params.iter().zip(params).all(|(a, b)| a.ptr_eq(b))
        };
        self.looked_at.iter().position(same)
    }

    /// Unscales gradients and notes whether they are finite.
    fn look_at(&mut self, site: CallSite, params: Vec<Param>) -> Result<()> {
        let _line = site.span.enter();
        let overflowed = without_grad(|| {
            let gradients = Gradients::of(site, &params)?;
            if gradients.pieces(|_| true).any(|piece| piece.dtype() == DType::F16) {
                return Err(wrong(site, "gradients in f32 or bf16", "f16; keep parameters in f32"));
            }
            let inverse = |device| site.unary(crate::ir::AluOp::Recip, &self.scale_on(device));
            gradients
                .replace(site, |grad| site.mul(grad, site.cast(&inverse(grad.device()), grad.dtype())))?;
            let unscaled = Gradients::of(site, &params)?;
            let own = unscaled.pieces(|_| true).map(|piece| overflowed(site, &piece));
            let own = own
                .reduce(|one, other| one.logical_or(&other.to(one.device())))
                .ok_or_else(|| wrong(site, "parameters with gradients", "parameters without"))?;
            // Ranks that divide parameters skip together.
            let all = |own, division: &Division<'_>| division.all_reduce(site, Reduce::Max, Some(own));
            Ok(unscaled.divisions.iter().fold(own, all))
        })?;
        register([Pending::root(overflowed.node()?)]);
        self.looked_at.push(LookedAt { params, overflowed, stepped: false });
        Ok(())
    }
}

/// The scale and the count of good steps, as the device has them.
fn state_of(scale: f64, tracker: i32, device: Device) -> (Tensor, Tensor) {
    (Tensor::from_vec(vec![scale as f32], (), device), Tensor::from_vec(vec![tracker], (), device))
}

/// Whether an element is infinite or NaN: a truth value of rank 0.
fn overflowed(site: CallSite, x: &Tensor) -> Tensor {
    let finite = x.abs().lt(f64::INFINITY);
    let axes: Vec<usize> = (0..finite.rank()).collect();
    site.reduce(crate::ir::Monoid::Min, &finite, &axes).logical_not()
}

fn check(opts: &GradScalerOpts, given: CallSite) -> Result<()> {
    let positive = |number: f64| number > 0.0 && number < f64::INFINITY;
    let refused = if !positive(opts.init_scale) {
        Some(("a scale of more than 0", opts.init_scale))
    } else if !(opts.growth_factor > 1.0 && positive(opts.growth_factor)) {
        Some(("a growth factor of more than 1", opts.growth_factor))
    } else if !(opts.backoff_factor < 1.0 && positive(opts.backoff_factor)) {
        Some(("a backoff factor between 0 and 1", opts.backoff_factor))
    } else if opts.growth_interval == 0 {
        Some(("a growth interval of at least 1", 0.0))
    } else {
        None
    };
    refused.map_or(Ok(()), |(expected, found)| Err(wrong(given, expected, &found.to_string())))
}

fn wrong(site: CallSite, expected: &str, found: &str) -> Error {
    site.error(expected, found, &[])
}
