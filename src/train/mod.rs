//! Training loops: epochs, evaluation, logs, checkpoints.
//!
//! [`Trainer`] is the loop that most programs write: it takes batches from a [`BatchSource`], such as a
//! [`DataLoader`](crate::data::DataLoader), steps an optimizer, evaluates [`Metric`]s, gives [`Record`]s to
//! [`Logger`]s, saves [`Checkpoints`] and resumes from them, alone or on all ranks of a
//! [`Group`](crate::dist::Group). Each part can be used without it.
//!
//! ```
//! use kiln::data::{DataLoader, Items, LoaderOpts};
//! use kiln::nn::{Layer, Linear, ModuleExt};
//! use kiln::optim::{Adam, AdamOpts};
//! use kiln::prelude::*;
//! use kiln::train::{Accuracy, EarlyStop, Trainer, TrainerOpts};
//! # fn main() -> kiln::Result<()> {
//! kiln::manual_seed(0);
//! // Which of two numbers is larger?
//! let pair = |i: usize| (Tensor::from([i as f32 % 7.0, i as f32 % 5.0]), i64::from(i % 5 > i % 7));
//! let loader = |from: usize| {
//!     let opts = LoaderOpts::default().batch_size(10).shuffle(true);
//!     DataLoader::new(Items::new(100, move |i| Ok(pair(from + i))), opts)
//! };
//! let model = Linear::new(2, 2, ());
//! let optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.1));
//! let mut trainer = Trainer::new(
//!     model,
//!     optimizer,
//!     |model: &Linear, (x, y): &(Tensor, Tensor)| {
//!         let scores = model.forward(x);
//!         (scores.cross_entropy(y, Default::default()), scores, y.clone())
//!     },
//!     TrainerOpts::default().epochs(20),
//! )
//! .validate_on(loader(100)?)
//! .metric(Accuracy)
//! .early_stop(EarlyStop::on("loss").patience(3))
//! .log_to(|record: &kiln::train::Record| {
//!     println!("{record}");
//!     Ok(())
//! });
//! let summary = trainer.fit(&loader(0)?)?;
//! assert!(summary.scores.and_then(|scores| scores.get("accuracy")) > Some(0.9));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "safetensors")]
mod checkpoints;
#[cfg(feature = "dashboard")]
mod dashboard;
mod evaluate;
mod fit;
mod logs;
mod metric;
mod metrics;
mod model;
mod opts;
mod output;
mod record;
mod report;
mod sharers;
mod source;
mod state;
mod stop;
mod trainer;
#[cfg(not(feature = "safetensors"))]
mod unsaved;

#[cfg(feature = "safetensors")]
pub use checkpoints::Checkpoints;
#[cfg(feature = "dashboard")]
pub use dashboard::Dashboard;
pub use logs::{CsvLog, JsonLog};
pub use metric::{Goal, Metric, Scores};
pub use metrics::{Accuracy, ConfusionMatrix, F1, Perplexity};
pub use opts::{Every, TrainerOpts};
pub use output::Output;
pub use record::{Ended, EpochEvent, Logger, Phase, Record, StepEvent, StepRecord, Summary};
pub use report::Report;
pub use source::{BatchSource, Sharing};
pub use stop::{EarlyStop, StopFlag};
pub use trainer::Trainer;
