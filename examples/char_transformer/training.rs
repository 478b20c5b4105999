//! A run that can be stopped and resumed.

use std::path::Path;

use kiln::data::{Batch, Batches, DataLoader, LoaderOpts};
use kiln::nn::ModuleExt;
use kiln::optim::{
    AdamW, AdamWOpts, Cosine, GradScaler, GradScalerOpts, Optimizer, Scheduler, WarmUp, clip_grad_norm,
};
use kiln::prelude::*;
use kiln::{Generator, StateDict, autocast, no_grad};

use super::Failure;
use super::model::{CharTransformer, Sizes};
use super::text::{Text, Windows};

/// How to train.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Schedule {
    /// Steps of the whole run.
    #[arg(long, default_value_t = 800)]
    pub steps: usize,
    /// Windows of the text in a step.
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// The largest learning rate.
    #[arg(long, default_value_t = 2e-3)]
    pub lr: f64,
    /// What the run follows from.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Mixed precision: computes products in this type, bf16 or f16.
    #[arg(long, value_name = "DTYPE")]
    pub amp: Option<DType>,
}

/// A run: the model, and everything that its next step depends on.
pub struct Training {
    pub model: CharTransformer,
    /// The loss of each step so far.
    pub losses: Vec<f32>,
    optimizer: AdamW,
    scaler: GradScaler,
    scheduler: Scheduler<WarmUp<Cosine>>,
    batches: Batches<Windows>,
    device: Device,
    amp: Option<DType>,
}

impl Training {
    /// Before the first step, or where a saved run was stopped.
    pub fn new(
        text: &Text,
        sizes: Sizes,
        schedule: Schedule,
        device: Device,
        resumed: Option<&Path>,
    ) -> Result<Training, Failure> {
        kiln::manual_seed(schedule.seed);
        let place = if resumed.is_some() { Device::meta() } else { device };
        let model = with_device(place, || CharTransformer::new(text.alphabet.len(), sizes));
        let mut optimizer = AdamW::new(model.parameters(), AdamWOpts::default().lr(schedule.lr));
        let growing = (schedule.steps / 20).max(1) as u64;
        let falling = Cosine { steps: schedule.steps as u64 - growing, floor: schedule.lr / 20.0 };
        let warm_up = WarmUp { steps: growing, factor: 0.01, then: falling };
        let mut scheduler = Scheduler::new(&mut optimizer, warm_up);
        let mut scaler = GradScaler::new(GradScalerOpts::default().enabled(schedule.amp == Some(DType::F16)));
        let mut losses = Vec::new();
        if let Some(path) = resumed {
            let state = StateDict::open(path)?;
            model.load_state_dict(&state.part("model"), device)?;
            optimizer.load_state_dict(&state.part("optimizer"))?;
            scheduler.load_state_dict(&state.part("scheduler"))?;
            scaler.load_state_dict(&state.part("scaler"))?;
            kiln::set_generator(Generator::from_state_dict(&state.part("generator"))?);
            losses = state.get("losses").ok_or("the state holds no losses")?.to_vec()?;
        }
        let windows = Windows { text: text.training.clone(), context: sizes.context, stride: 1 };
        let opts = LoaderOpts::default().batch_size(schedule.batch).shuffle(true).seed(schedule.seed);
        let batches = DataLoader::new(windows, opts)?.epoch_from(0, losses.len());
        Ok(Training { model, losses, optimizer, scaler, scheduler, batches, device, amp: schedule.amp })
    }

    /// One step: a batch, its loss, gradients, and an update, in one plan.
    pub fn step(&mut self) -> Result<f32, Failure> {
        self.model.train();
        let batch = self.batches.next().ok_or("the text is used up; take fewer steps")?;
        let (characters, following) = batch?.to(self.device);
        self.optimizer.zero_grad();
        let loss = {
            let _mixed = self.amp.map(autocast);
            self.model.loss(&characters, &following)
        };
        self.scaler.scale(&loss).backward()?;
        self.scaler.unscale(&self.optimizer)?;
        let _norm = clip_grad_norm(&self.model.parameters(), 1.0)?;
        self.scaler.step(&mut self.optimizer)?;
        self.scaler.update()?;
        self.scheduler.step_unless(&mut self.optimizer, &self.scaler.skipped())?;
        self.losses.push(loss.item()?);
        self.scheduler.settle(&mut self.optimizer)?;
        Ok(self.losses[self.losses.len() - 1])
    }

    /// The mean loss over a text, in windows that do not overlap: within one,
    /// the first characters are told from few.
    pub fn evaluate(&self, text: &[u8], context: usize) -> Result<f64, Failure> {
        let _no_grad = no_grad();
        self.model.eval();
        let windows = Windows { text: text.to_vec(), context, stride: context };
        let opts = LoaderOpts::default().batch_size(32).drop_last(true);
        let loader = DataLoader::new(windows, opts)?;
        let mut sum = 0.0;
        for batch in loader.epoch(0) {
            let (characters, following) = batch?.to(self.device);
            sum += self.model.loss(&characters, &following).item::<f64>()?;
        }
        Ok(sum / loader.len() as f64)
    }

    /// Keeps all that [`Training::new`] needs to go on.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let mut state = StateDict::new();
        state.extend("model", self.model.state_dict()?)?;
        state.extend("optimizer", self.optimizer.state_dict()?)?;
        state.extend("scheduler", self.scheduler.state_dict()?)?;
        state.extend("scaler", self.scaler.state_dict()?)?;
        state.extend("generator", kiln::generator().state_dict()?)?;
        let losses = Tensor::from_slice(&self.losses, [self.losses.len()], Device::cpu());
        state.insert("losses", &losses)?;
        Ok(state.save(path)?)
    }
}
