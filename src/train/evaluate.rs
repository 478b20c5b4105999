//! Evaluation: the loss and metrics over a source.

use std::collections::BTreeMap;

use crate::base::{DType, Device, Result, Span};
use crate::data::Batch;
use crate::dist::{Group, Reduce};
use crate::grad::no_grad;
use crate::nn::Module;
use crate::plan;
use crate::tensor::Tensor;
use crate::train::metric::Scores;
use crate::train::model::Evaluating;
use crate::train::output::Output;
use crate::train::source::{BatchSource, Sharing};
use crate::train::trainer::Trainer;

/// Batches whose sums are added on the device, in 32 bits, before the host adds them in 64.
const ON_DEVICE: usize = 256;

/// Sums over batches: of the loss times samples and samples, and of each metric.
#[derive(Default)]
struct Sums {
    /// Not read yet, of so many batches.
    pending: Vec<Tensor>,
    batches: usize,
    shapes: Vec<Vec<usize>>,
    read: Vec<Vec<f64>>,
}

impl Sums {
    /// Adds a batch's, and computes them: the host does not wait.
    fn add(&mut self, of_batch: Vec<Tensor>) -> Result<()> {
        self.pending = match self.pending.is_empty() {
            true => of_batch,
            false => self.pending.iter().zip(of_batch).map(|(sum, own)| sum + own).collect(),
        };
        let nodes = self.pending.iter().map(|sum| sum.node().cloned()).collect::<Result<Vec<_>>>()?;
        plan::realize(&nodes, Span::caller())?;
        self.batches += 1;
        if self.batches == ON_DEVICE { self.read() } else { Ok(()) }
    }

    fn read(&mut self) -> Result<()> {
        self.batches = 0;
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let numbers = |sum: &Tensor| sum.to(Device::cpu()).to_dtype(DType::F64).reshape([-1]).to_vec::<f64>();
        let new = pending.iter().map(numbers).collect::<Result<Vec<_>>>()?;
        if self.read.is_empty() {
            self.shapes = pending.iter().map(|sum| sum.shape().to_vec()).collect();
            self.read = new;
            return Ok(());
        }
        let pairs = self.read.iter_mut().zip(new);
        pairs.for_each(|(sum, new)| sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new));
        Ok(())
    }

    /// Adds those of the other ranks. A rank without a batch knows no shapes.
    fn of_all(&mut self, group: &Group, count: usize) -> Result<()> {
        self.read.resize(count, Vec::new());
        self.shapes.resize(count, Vec::new());
        let lens: Vec<i64> = self.read.iter().map(|sum| sum.len() as i64).collect();
        let lens = group.all_reduce(&Tensor::from_vec(lens, [count], Device::cpu()), Reduce::Max);
        for (sum, len) in self.read.iter_mut().zip(lens.to_vec::<i64>()?) {
            sum.resize(len as usize, 0.0);
        }
        let flat = Tensor::from_vec(self.read.concat(), [self.read.concat().len()], Device::cpu());
        let flat = group.all_reduce(&flat, Reduce::Sum).to_vec::<f64>()?;
        let mut at = 0;
        for sum in &mut self.read {
            let end = at + sum.len();
            sum.copy_from_slice(&flat[at..end]);
            at = end;
        }
        Ok(())
    }
}

/// The number of samples: the extent of the first tensor's first axis.
pub(super) fn samples<B: Batch>(batch: &B) -> usize {
    let mut found = None;
    let _ = batch.map(&mut |x| {
        found.get_or_insert_with(|| x.shape().first().copied().unwrap_or(1));
        x.clone()
    });
    found.unwrap_or(1)
}

impl<M: Module, B: Batch> Trainer<'_, M, B> {
    /// What the model says about a batch, in the training's precision.
    pub(super) fn output(&self, batch: B) -> Output {
        let batch = batch.to(self.device());
        let batch = match &self.hooks.batch {
            Some(prepare) => prepare(batch),
            None => batch,
        };
        let _mixed = self.opts.autocast.map(crate::autocast);
        (self.forward)(self.model.module(), &batch)
    }

    /// The mean loss over the samples of a source, and all metrics. The model is in evaluation meanwhile, and
    /// nothing is tracked. Ranks share the source, and all find the same.
    ///
    /// # Errors
    /// What loading a batch or the forward pass says, or a metric that the output does not do for.
    #[track_caller]
    pub fn evaluate(&self, source: &dyn BatchSource<B>) -> Result<Scores> {
        let _line = Span::caller().enter();
        self.model.settle()?;
        let (ranks, rank) = (self.model.ranks(), self.model.rank());
        let part = if ranks > 1 { source.share(ranks, rank, Sharing::Exact)? } else { None };
        let source = part.as_deref().unwrap_or(source);
        let _mode = Evaluating::begin(self.model.module());
        let _untracked = no_grad();
        let mut sums = Sums::default();
        for batch in source.epoch_from(0, 0) {
            let batch = batch?;
            let count = samples(&batch) as f64;
            let output = self.output(batch);
            let loss = output.loss.to_dtype(DType::F32);
            let of_loss = Tensor::stack(&[&loss * count, loss.full_like(count)], 0);
            let metrics = self.metrics.iter().map(|metric| metric.sums(&output));
            sums.add(std::iter::once(of_loss).chain(metrics).collect())?;
        }
        sums.read()?;
        if let Some(group) = self.model.group() {
            sums.of_all(group, 1 + self.metrics.len())?;
        }
        Ok(self.scores_of(sums))
    }

    fn scores_of(&self, sums: Sums) -> Scores {
        let mut scores = Scores { values: Vec::new(), sums: BTreeMap::new() };
        let mut found = sums.shapes.into_iter().zip(sums.read);
        let loss = found.next().map(|(_, sums)| sums).unwrap_or_default();
        let [loss, samples] = loss[..] else {
            return scores; // no batch on any rank
        };
        scores.values.push(("loss".into(), loss / samples));
        for (metric, (shape, sums)) in self.metrics.iter().zip(found) {
            scores.values.push((metric.name().into(), metric.value(&sums)));
            scores.sums.insert(metric.name().into(), (shape, sums));
        }
        scores
    }
}
