//! What a plan casts, by which rule, and what that saves.

use std::fmt::{self, Display};

use crate::base::{DType, Shape, Span};
use crate::plan::PlanReport;
use crate::plan::report::bytes;
use crate::tensor::autocast::policy::{Policy, policy};

/// The casts of a plan between floating types. Prints as a list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PrecisionReport {
    /// In the order they were written; several of one value to one type, which are made once, as one.
    pub casts: Vec<CastReport>,
}

/// A cast of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CastReport {
    /// The operation whose operand or result it is; `grad` in gradients.
    pub operation: &'static str,
    /// The type before.
    pub from: DType,
    /// The type after.
    pub to: DType,
    /// Extents of the value.
    pub shape: Shape,
    /// What the table of [`autocast`](crate::autocast) says of the operation; `None` for an operation that
    /// it leaves alone and for casts that were written out.
    pub rule: Option<Policy>,
    /// The user's line.
    pub at: Span,
    /// How often it was written. It is made once for all.
    pub written: usize,
    /// Bytes that the value is smaller by; negative if it is larger.
    pub bytes_saved: i64,
    /// The kernels that compute it.
    pub kernels: Vec<String>,
    /// How many of them store it. In the others it vanishes: it is part of what they compute.
    pub stored: usize,
}

impl PlanReport {
    /// Every cast between floating types: of which operation, by which rule, what it saves, and in which
    /// kernels it vanishes. Those of a loop are told once, after the others, with the bytes of a trip; those
    /// within an operation that is a body of its own, such as attention, with it.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::tensor::autocast::policy::Policy;
    /// use kiln::with_autocast;
    /// let (x, w) = (Tensor::rand([64, 64], ()), Tensor::rand([64, 64], ()));
    /// let casts = with_autocast(DType::BF16, || x.matmul(&w).matmul(&w)).plan()?.precision().casts;
    /// // x and w, each once.
    /// assert_eq!(casts.len(), 2);
    /// assert_eq!((casts[0].operation, casts[0].from, casts[0].to), ("matmul", DType::F32, DType::BF16));
    /// assert_eq!((casts[0].rule, casts[0].bytes_saved), (Some(Policy::Lower), 2 * 64 * 64));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn precision(&self) -> PrecisionReport {
        let casts = self.casts.iter().map(|cast| {
            let bytes = |dtype: DType| (cast.shape.numel() * dtype.size()) as i64;
            CastReport {
                operation: cast.name,
                from: cast.from,
                to: cast.to,
                shape: cast.shape.clone(),
                rule: policy(cast.name, cast.device.kind),
                at: cast.at,
                written: cast.written,
                bytes_saved: bytes(cast.from) - bytes(cast.to),
                kernels: cast.kernels.clone(),
                stored: cast.stored,
            }
        });
        PrecisionReport { casts: casts.collect() }
    }
}

impl Display for PrecisionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.casts.iter().try_for_each(|cast| writeln!(f, "{cast}"))
    }
}

impl Display for CastReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Some(Policy::Lower) => "in 16 bits",
            Some(Policy::Float32) => "in f32",
            None => "no rule",
        };
        write!(f, "{} ({rule}): {} -> {} of {}", self.operation, self.from, self.to, self.shape)?;
        match self.bytes_saved {
            0 => {}
            saved @ 1.. => write!(f, ", {} saved", bytes(saved as u64))?,
            more => write!(f, ", {} more", bytes(more.unsigned_abs()))?,
        }
        if self.written > 1 {
            write!(f, ", written {} times", self.written)?;
        }
        let kernels = self.kernels.join(", ");
        match (self.kernels.len(), self.stored) {
            (0, _) => write!(f, ", dropped")?,
            (_, 0) => write!(f, ", vanishes in {kernels}")?,
            (_, _) => write!(f, ", stored by {kernels}")?,
        }
        write!(f, " at {}", self.at)
    }
}
