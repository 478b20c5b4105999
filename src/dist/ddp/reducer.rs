//! The gradients of all ranks, averaged in buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::{DType, Device, OpName, Result, Span};
use crate::dist::ddp::DdpOpts;
use crate::ir::Node;
use crate::ir::collect::NodeMap;
use crate::ir::collective::{Channel, CollectiveKind, Reduce};
use crate::ir::history::{GradCell, GradReducer};
use crate::ir::pending::{Pending, register};
use crate::nn::Param;
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;
use crate::tensor::pack::Pack;

/// Averages the gradients of some parameters over the ranks of a group.
pub(super) struct Reducer {
    pub channel: Arc<dyn Channel>,
    pub params: Vec<Param>,
    pub opts: DdpOpts,
    /// How many regions that do without it are open.
    pub paused: AtomicUsize,
}

/// A parameter's gradient on this rank.
struct OwnGradient {
    cell: Arc<GradCell>,
    gradient: Tensor,
}

/// Gradients that are averaged together.
struct Bucket {
    dtype: DType,
    device: Device,
    gradients: Vec<OwnGradient>,
    bytes: usize,
}

impl GradReducer for Reducer {
    fn is_on(&self) -> bool {
        self.paused.load(Ordering::Relaxed) == 0
    }

    fn reduce(&self, found: Vec<(Arc<GradCell>, Arc<Node>)>, span: Span) -> Result<()> {
        let site = CallSite { name: OpName::GRADIENT, span };
        for bucket in self.buckets(self.own(site, found)) {
            let cells: Vec<Arc<GradCell>> = bucket.gradients.iter().map(|own| own.cell.clone()).collect();
            for (cell, average) in cells.iter().zip(self.average(site, bucket)?) {
                cell.replace(Some(average.node()?.clone()));
            }
            register(cells.iter().map(|cell| Pending::Gradient(Arc::<GradCell>::downgrade(cell))));
        }
        Ok(())
    }
}

impl Reducer {
    /// This rank's gradient of each trained parameter, with what has accumulated: zeros where there is
    /// none, since other ranks may have one. The last parameters come first: backward reaches them first.
    fn own(&self, site: CallSite, found: Vec<(Arc<GradCell>, Arc<Node>)>) -> Vec<OwnGradient> {
        let address = |cell: &Arc<GradCell>| Arc::as_ptr(cell) as usize;
        let mut new: NodeMap<Tensor> = NodeMap::default();
        for (cell, node) in found {
            let gradient = Tensor::from_node(node);
            let sum =
                new.remove(&address(&cell)).map_or_else(|| gradient.clone(), |sum| site.add(&sum, &gradient));
            new.insert(address(&cell), sum);
        }
        let trained = self.params.iter().rev().filter(|param| param.requires_grad());
        let own = trained.map(|param| {
            let cell = param.cell().clone();
            let held = param.grad();
            let gradient = match (held, new.remove(&address(&cell))) {
                (Some(held), Some(new)) => site.add(held, new),
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => site.zeros_like(&param.get()),
            };
            OwnGradient { cell, gradient }
        });
        own.collect()
    }

    /// Gradients of one type and device, of so many bytes together. The first bucket is small, so that the
    /// first exchange begins early.
    fn buckets(&self, gradients: Vec<OwnGradient>) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for own in gradients {
            let (dtype, device) = (own.gradient.dtype(), own.gradient.device());
            let bytes = own.gradient.numel() * dtype.size();
            let most = |number: usize| {
                if number == 0 { self.opts.first_bucket_bytes } else { self.opts.bucket_bytes }
            };
            let last =
                buckets.iter_mut().enumerate().rev().find(|(_, b)| b.dtype == dtype && b.device == device);
            match last.filter(|(number, bucket)| bucket.bytes + bytes <= most(*number)) {
                Some((_, bucket)) => {
                    bucket.bytes += bytes;
                    bucket.gradients.push(own);
                }
                None => buckets.push(Bucket { dtype, device, gradients: vec![own], bytes }),
            }
        }
        // As optimizers pack them.
        buckets.iter_mut().for_each(|bucket| bucket.gradients.reverse());
        buckets
    }

    /// The averages of a bucket's gradients over the ranks.
    fn average(&self, site: CallSite, bucket: Bucket) -> Result<Vec<Tensor>> {
        let Bucket { dtype, device, gradients, .. } = bucket;
        let gradients: Vec<Tensor> = gradients.into_iter().map(|own| own.gradient).collect();
        let pack = Pack::new(site, gradients.iter().map(Tensor::shape).collect(), dtype, device);
        let whole = pack.whole(&gradients)?;
        let sent = self.opts.compress.filter(|_| dtype.is_float()).unwrap_or(dtype);
        let mean = CollectiveKind::AllReduce(Reduce::Mean);
        let average = collective(site, mean, &self.channel, &site.cast(&whole, sent));
        average.check()?;
        Ok(pack.parts(&site.cast(&average, dtype), gradients.len()))
    }
}
