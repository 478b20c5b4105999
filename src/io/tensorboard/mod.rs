//! Curves, histograms, images and text for TensorBoard (feature `tensorboard`).
//!
//! [`SummaryWriter`] writes the event files that `tensorboard --logdir DIR` shows while a training runs.
//! Neither Python nor TensorFlow is needed to write them.

mod event;
mod event_file;
mod histogram;
mod image;
mod message;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::{DType, Device, Error, Result, Shape, Span};
use crate::io::tensorboard::event::Value;
use crate::io::tensorboard::event_file::EventFile;
use crate::io::tensorboard::histogram::Histogram;
use crate::io::tensorboard::image::Image;
use crate::tensor::Tensor;

/// Writes what TensorBoard shows, into a file of its own in a folder: a run. Several runs in folders beside
/// each other are drawn over each other.
///
/// Names with slashes (`"loss/train"`) are grouped by their first part. What was added is on the disk after
/// [`SummaryWriter::flush`], when the writer is dropped, and while adding at least every ten seconds; a
/// program that is killed loses no more than that.
///
/// PyTorch: `torch.utils.tensorboard.SummaryWriter`.
///
/// # Examples
/// ```
/// use kiln::io::tensorboard::SummaryWriter;
/// use kiln::prelude::*;
/// # let dir = std::env::temp_dir().join(format!("kiln-runs-{}", std::process::id()));
/// let mut writer = SummaryWriter::new(&dir)?; // "runs/first", say
/// for step in 0..3 {
///     writer.add_scalar("loss/train", 1.0 / (step + 1) as f64, step)?;
///     writer.add_histogram("weights", &Tensor::linspace(-1.0, 1.0, 100, ()), step)?;
/// }
/// writer.add_image("noise", &Tensor::rand([3, 8, 8], ()), 0)?;
/// writer.add_text("settings", "lr = **0.1**", 0)?;
/// writer.flush()?;
/// let name = writer.path().file_name().unwrap().to_string_lossy().into_owned();
/// assert!(name.starts_with("events.out.tfevents."));
/// # drop(writer);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct SummaryWriter {
    folder: PathBuf,
    file: EventFile,
    /// Of the curves of one chart, by folder.
    parts: BTreeMap<PathBuf, EventFile>,
}

impl SummaryWriter {
    /// A run in a folder, which is made if need be.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn new(folder: impl AsRef<Path>) -> Result<SummaryWriter> {
        let folder = folder.as_ref().to_path_buf();
        let file = EventFile::create(&folder, Span::caller())?;
        Ok(SummaryWriter { folder, file, parts: BTreeMap::new() })
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// A point of a curve; kept as `f32`.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn add_scalar(&mut self, tag: &str, value: impl Into<f64>, step: i64) -> Result<()> {
        self.file.add(tag, &Value::Scalar(value.into() as f32), step, Span::caller())
    }

    /// A point of each of several curves that share one chart. Each is a run of its own, in a folder
    /// `TAG_NAME` below this one.
    ///
    /// # Errors
    /// [`Error::File`].
    ///
    /// # Examples
    /// ```
    /// # use kiln::io::tensorboard::SummaryWriter;
    /// # let dir = std::env::temp_dir().join(format!("kiln-runs-of-{}", std::process::id()));
    /// let mut writer = SummaryWriter::new(&dir)?;
    /// writer.add_scalars("loss", &[("train", 0.5), ("test", 0.7)], 1)?;
    /// assert!(dir.join("loss_train").is_dir());
    /// # drop(writer);
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn add_scalars(&mut self, tag: &str, values: &[(&str, f64)], step: i64) -> Result<()> {
        let span = Span::caller();
        for (name, value) in values {
            let folder = self.folder.join(format!("{tag}_{name}").replace(['/', '\\'], "_"));
            if !self.parts.contains_key(&folder) {
                self.parts.insert(folder.clone(), EventFile::create(&folder, span)?);
            }
            if let Some(file) = self.parts.get_mut(&folder) {
                file.add(tag, &Value::Scalar(*value as f32), step, span)?;
            }
        }
        Ok(())
    }

    /// How the elements of a tensor are distributed, in buckets that grow by a tenth. What is not finite is
    /// left out.
    ///
    /// # Errors
    /// The tensor's error; a complex tensor; one without a finite element; [`Error::File`].
    #[track_caller]
    pub fn add_histogram(&mut self, tag: &str, values: &Tensor, step: i64) -> Result<()> {
        let span = Span::caller();
        let elements = values.to(Device::cpu()).to_dtype(DType::F64).reshape([-1]).to_vec::<f64>()?;
        let histogram = Histogram::of(&elements).ok_or_else(|| Error::Argument {
            call: "add_histogram",
            expected: "at least one finite element".into(),
            found: format!("none among {}", elements.len()),
            span,
        })?;
        self.file.add(tag, &Value::Histogram(histogram), step, span)
    }

    /// An image: `[channels, height, width]` with 1 channel (gray), 3 (red, green, blue) or 4 (and opacity),
    /// or `[height, width]`. Bytes are taken as they are, other types from 0 to 1; what is outside becomes 0
    /// or 1, and NaN 0.
    ///
    /// # Errors
    /// The tensor's error; another shape; [`Error::File`].
    #[track_caller]
    pub fn add_image(&mut self, tag: &str, image: &Tensor, step: i64) -> Result<()> {
        let span = Span::caller();
        let shape: Shape = image.node()?.ty().shape.clone();
        let wrong = || Error::Argument {
            call: "add_image",
            expected: "[1, 3 or 4 channels, height, width] or [height, width], not empty".into(),
            found: shape.to_string(),
            span,
        };
        let (channels, height, width) = match shape[..] {
            [height, width] => (1, height, width),
            [channels @ (1 | 3 | 4), height, width] => (channels, height, width),
            _ => return Err(wrong()),
        };
        let size =
            |n: usize| u32::try_from(n).ok().filter(|&n| 0 < n && n <= Image::MAX_SIDE).ok_or_else(wrong);
        let (height_in, width_in) = (size(height)?, size(width)?);
        let rows = image.reshape([channels, height, width]).permute([1, 2, 0]).to(Device::cpu());
        let bytes = if image.dtype() == DType::U8 {
            rows.to_vec::<u8>()?
        } else {
            let scaled = |x: f32| (x * 255.0).clamp(0.0, 255.0) as u8;
            rows.to_dtype(DType::F32).to_vec::<f32>()?.into_iter().map(scaled).collect()
        };
        let image = Image::encode(width_in, height_in, channels, &bytes)
            .map_err(|message| self.file.error(message, span))?;
        self.file.add(tag, &Value::Image(image), step, span)
    }

    /// A text in Markdown.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn add_text(&mut self, tag: &str, text: &str, step: i64) -> Result<()> {
        self.file.add(&format!("{tag}/text_summary"), &Value::Text(text.into()), step, Span::caller())
    }

    /// Writes what was added so far.
    ///
    /// # Errors
    /// [`Error::File`].
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        let span = Span::caller();
        self.file.flush(span)?;
        self.parts.values_mut().try_for_each(|file| file.flush(span))
    }
}
