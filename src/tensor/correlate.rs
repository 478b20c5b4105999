//! Kernels that slide over images, in both directions. Nothing is copied: padding and windows
//! are views, and the contraction is a matrix product over them.

use crate::ir::PadAxis;
use crate::ir::op::WindowAxis;
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::join::cat_along;
use crate::tensor::polyphase::{Periods, leading, padded};
use crate::tensor::rule::with_rule;

/// The sizes along one spatial axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpatialAxis {
    /// Elements of the kernel.
    pub kernel: usize,
    /// From a window to the next.
    pub stride: usize,
    /// From an element of a window to the next.
    pub dilation: usize,
    /// Zeros around the image and, where the stride is 1, between its elements.
    pub pad: PadAxis,
}

impl SpatialAxis {
    /// Elements a window spans.
    pub fn span(self) -> usize {
        self.dilation.saturating_mul(self.kernel.saturating_sub(1)).saturating_add(1)
    }

    /// Of an image, so many elements with their zeros.
    fn padded(self, extent: usize) -> i64 {
        let gaps = extent.saturating_sub(1).saturating_mul(self.pad.interior);
        (extent.saturating_add(gaps) as i64).saturating_add(self.pad.lo).saturating_add(self.pad.hi)
    }

    /// Windows over an image of so many elements, in which one fits.
    fn windows(self, extent: usize) -> usize {
        ((self.padded(extent) - self.span() as i64) / self.stride as i64 + 1) as usize
    }

    /// The axis along which the result's cotangent is correlated with the reversed kernel, for
    /// an image of an extent: what was put between elements is stepped over, and what was stepped
    /// over is put between them.
    fn adjoint(self, extent: usize) -> SpatialAxis {
        let around = self.span() as i64 - 1;
        let left = (self.padded(extent) - around - 1) % self.stride as i64;
        let pad =
            PadAxis { lo: around - self.pad.lo, hi: around - self.pad.hi + left, interior: self.stride - 1 };
        SpatialAxis { stride: self.pad.interior + 1, pad, ..self }
    }

    /// Whether windows are taken phase by phase, not over zeros between elements.
    fn is_by_phase(self) -> bool {
        let PadAxis { lo, hi, interior } = self.pad;
        interior > 0 && self.dilation == 1 && lo >= 0 && hi >= 0
    }
}

/// Kernels `[g, out / g, c / g, k..]` (without `g` for one group) sliding over images
/// `[n, c, l..]`: `[n, out, l'..]`.
#[derive(Clone, Debug)]
pub(crate) struct Correlation {
    /// The call that asks for it.
    pub site: CallSite,
    /// Groups of channels, each with kernels of its own.
    pub groups: usize,
    /// The spatial axes.
    pub axes: Vec<SpatialAxis>,
}

impl Correlation {
    /// The result.
    ///
    /// The gradients are such slides too, where those of windows would write what each window
    /// gives back.
    pub fn apply(&self, x: &Tensor, kernel: &Tensor) -> Checked<Tensor> {
        let (y, forward) = (self.contract(x, kernel)?, self.clone());
        Ok(with_rule(y, &[x, kernel], move |inputs, _, cotangent| {
            let [x, kernel] = inputs else { return vec![None, None] };
            let back = forward.adjoint(x);
            let reversed = |kernel: &Tensor| adjoint_kernel(forward.site, kernel, forward.axes.len());
            let of_x = || back.apply(cotangent, &reversed(kernel));
            // Windows are taken of what has no zeros between its elements.
            let of_kernel = || match forward.axes.iter().any(|axis| axis.pad.interior > 0) {
                true => back.contract_positions(x, cotangent).map(|kernel| reversed(&kernel)),
                false => forward.contract_positions(cotangent, x),
            };
            vec![x.is_tracked().then(|| finish(of_x())), kernel.is_tracked().then(|| finish(of_kernel()))]
        }))
    }

    /// What correlates a result's cotangent with the reversed kernel, for images like `x`.
    fn adjoint(&self, x: &Tensor) -> Correlation {
        let shape = x.shape();
        let axes = self.axes.iter().zip(&shape[2..]).map(|(axis, &extent)| axis.adjoint(extent)).collect();
        Correlation { axes, ..*self }
    }

    /// The result without a rule for its gradient.
    fn contract(&self, x: &Tensor, kernel: &Tensor) -> Checked<Tensor> {
        let shape = x.shape();
        let extents: Vec<usize> =
            self.axes.iter().zip(&shape[2..]).map(|(axis, &n)| axis.windows(n)).collect();
        Ok(leading(self.site, &self.contract_periods(x, kernel)?, 2, &extents))
    }

    /// The same, but of axes that are taken by phases whole periods.
    fn contract_periods(&self, x: &Tensor, kernel: &Tensor) -> Checked<Tensor> {
        let shape = x.shape();
        let fit = self.axes.iter().zip(&shape[2..]).all(|(axis, &n)| axis.padded(n) >= axis.span() as i64);
        match self.axes.iter().position(|axis| axis.is_by_phase()) {
            Some(i) if fit => self.by_phase(x, kernel, i),
            _ => self.contract_windows(x, kernel),
        }
    }

    /// Whole periods along the spatial axis `i` with zeros between elements: at each phase a part
    /// of the kernel meets elements alone.
    fn by_phase(&self, x: &Tensor, kernel: &Tensor, i: usize) -> Checked<Tensor> {
        let (axis, extent, site) = (self.axes[i], x.shape()[2 + i], self.site);
        let stride = axis.pad.interior + 1;
        // Position p meets the element j of the kernel where p + j - lo divides: one less than the
        // stride later, j counts phases backwards.
        let of = Periods::new(stride, stride as i64 - 1 - axis.pad.lo, axis.windows(extent));
        let (taps, more, periods) = (axis.kernel / stride, axis.kernel % stride, of.count());
        let phases = [
            Phases { first: more, count: stride - more, taps, stride, periods },
            Phases { first: 0, count: more, taps: taps + 1, stride, periods },
        ];
        let mut parts = Vec::new();
        for phases in phases.iter().filter(|phases| phases.count > 0) {
            let hi = of.first + (periods + phases.taps) as i64 - 1 - extent as i64;
            let pad = PadAxis { lo: -of.first, hi, interior: 0 };
            let mut part = self.clone();
            part.axes[i] = SpatialAxis { kernel: phases.taps, stride: 1, dilation: 1, pad };
            parts.push(part.at_phases(x, kernel, i, phases)?);
        }
        // Phases follow their periods, in memory too.
        let rank = 3 + self.axes.len();
        let order: Vec<usize> = (0..2).chain(3..4 + i).chain([2]).chain(4 + i..rank).collect();
        let parts: Vec<Tensor> = parts.iter().map(|part| site.permute(part, &order)).collect();
        let parts: Vec<&Tensor> = parts.iter().collect();
        let y = site.build(&parts, || cat_along(site, &parts, 3 + i));
        site.valid(&[&y])?;
        Ok(of.interleave(site, &y, 2 + i))
    }

    /// Some phases along the spatial axis `i`, the last first: `[n, out, phases, l'..]`.
    fn at_phases(&self, x: &Tensor, kernel: &Tensor, i: usize, phases: &Phases) -> Checked<Tensor> {
        let (site, lead) = (self.site, kernel.rank() - self.axes.len());
        let out = self.groups * kernel.shape()[lead - 2];
        if phases.taps == 0 {
            return Ok(site.expand(&site.scalar(0i64, x.dtype(), x.device()), &self.zeros(x, out, i, phases)));
        }
        let y = self.contract_periods(x, &kernel_at_phases(site, kernel, lead, lead + i, phases))?;
        let shape = y.shape();
        Ok(site.reshape(&y, &[&[shape[0], out, phases.count], &shape[2..]].concat()))
    }

    /// The shape of phases at which the kernel has no element, of `out` channels.
    fn zeros(&self, x: &Tensor, out: usize, i: usize, phases: &Phases) -> Vec<usize> {
        let mut dims = x.shape().to_vec();
        (dims[1], dims[2 + i]) = (out, phases.periods);
        for (j, axis) in self.axes.iter().enumerate().filter(|(j, _)| *j != i) {
            let period = if axis.is_by_phase() { axis.pad.interior + 1 } else { 1 };
            dims[2 + j] = axis.windows(dims[2 + j]).next_multiple_of(period);
        }
        dims.insert(2, phases.count);
        dims
    }

    /// The result by its definition.
    fn contract_windows(&self, x: &Tensor, kernel: &Tensor) -> Checked<Tensor> {
        let (site, spatial) = (self.site, self.axes.len());
        let x = self.grouped_channels(x);
        let lead = x.rank() - spatial;
        let windows = slide(site, &x, lead, &self.axes)?;
        let g = lead - 2;
        // Channels, then the window's elements, follow g and out in the kernel.
        let mut summed = vec![(g + 1, g + 1)];
        summed.extend((0..spatial).map(|i| (g + 2 + i, lead + spatial + i)));
        let batch: &[(usize, usize)] = if g == 1 { &[(0, 1)] } else { &[] };
        let y = site.contract(kernel, &windows, batch, &summed);
        site.valid(&[&y])?;
        // [g, out / g, n, l'..] to [n, g, out / g, l'..].
        let mut order: Vec<usize> = (0..y.rank()).collect();
        order[..=g + 1].rotate_right(1);
        let y = site.permute(&y, &order);
        if g == 0 {
            return Ok(y);
        }
        let shape = y.shape();
        let dims = [&[shape[0], shape[1] * shape[2]][..], &shape[3..]].concat();
        Ok(site.reshape(&y, &dims))
    }

    /// The kernel's cotangent: what lies under each of its elements, times the result's
    /// cotangent, summed over positions.
    fn contract_positions(&self, cotangent: &Tensor, x: &Tensor) -> Checked<Tensor> {
        let (cotangent, x) = (self.grouped_channels(cotangent), self.grouped_channels(x));
        let lead = x.rank() - self.axes.len();
        let windows = slide(self.site, &x, lead, &self.axes)?;
        let summed: Vec<(usize, usize)> = std::iter::once(0).chain(lead..x.rank()).map(|i| (i, i)).collect();
        let batch: &[(usize, usize)] = if self.groups > 1 { &[(1, 1)] } else { &[] };
        Ok(self.site.contract(&cotangent, &windows, batch, &summed))
    }

    /// `[n, c, l..]` as `[n, g, c / g, l..]`, for one group as it is.
    fn grouped_channels(&self, x: &Tensor) -> Tensor {
        let shape = x.shape();
        let split = [&[shape[0], shape[1] / self.groups][..], &shape[2..]].concat();
        grouped(self.site, x, self.groups, 1, &split)
    }
}

/// Phases along an axis that have as many of the kernel's elements.
struct Phases {
    /// The first of them: an element of the kernel.
    first: usize,
    count: usize,
    /// Elements of the kernel, a stride apart.
    taps: usize,
    /// The kernel's elements from one of the same phase to the next.
    stride: usize,
    /// Periods of them in the result.
    periods: usize,
}

/// The elements of a kernel at some phases of an axis, with each phase an output: of channels and
/// axes from `lead` on, `[.., out * phases, c, k..]`.
fn kernel_at_phases(site: CallSite, kernel: &Tensor, lead: usize, along: usize, phases: &Phases) -> Tensor {
    let (shape, stride) = (kernel.shape(), phases.stride);
    let all = shape[along].next_multiple_of(stride);
    let kernel = padded(site, kernel, along, 0, (all - shape[along]) as i64);
    let split = [&shape[..along], &[all / stride, stride], &shape[along + 1..]].concat();
    let kernel = site.slice(&site.reshape(&kernel, &split), along, 0, phases.taps, 1);
    let kernel = site.slice(&kernel, along + 1, phases.first, phases.first + phases.count, 1);
    let kernel = site.flip(&kernel, &[along + 1]);
    // [.., out, phases, c, k..].
    let order: Vec<usize> =
        (0..lead - 1).chain([along + 1]).chain(lead - 1..=along).chain(along + 2..kernel.rank()).collect();
    let mut dims = shape.to_vec();
    (dims[lead - 2], dims[along]) = (shape[lead - 2] * phases.count, phases.taps);
    site.reshape(&site.permute(&kernel, &order), &dims)
}

/// `[groups * a, ..]` on one axis as `[groups, a, ..]`; `split` is the shape
/// without the groups. One group is no axis.
pub(crate) fn grouped(site: CallSite, x: &Tensor, groups: usize, axis: usize, split: &[usize]) -> Tensor {
    if groups == 1 {
        return x.clone();
    }
    let mut dims = split.to_vec();
    dims.insert(axis, groups);
    site.reshape(x, &dims)
}

/// The kernel `[g, out / g, c / g, k..]` reversed, with `out` and `c` in each other's
/// place.
pub(crate) fn adjoint_kernel(site: CallSite, kernel: &Tensor, spatial: usize) -> Tensor {
    let lead = kernel.rank() - spatial;
    let flipped = site.flip(kernel, &(lead..kernel.rank()).collect::<Vec<_>>());
    site.transpose(&flipped, lead - 2, lead - 1)
}

/// Pads the axes from `lead` on and slides windows along each: the windows'
/// elements become last axes, in order.
fn slide(site: CallSite, x: &Tensor, lead: usize, axes: &[SpatialAxis]) -> Checked<Tensor> {
    let mut pads = vec![PadAxis::default(); lead];
    pads.extend(axes.iter().map(|axis| axis.pad));
    let mut x = site.pad(x, pads, 0i64);
    site.valid(&[&x])?;
    for (i, axis) in axes.iter().enumerate() {
        let (extent, span) = (x.shape()[lead + i], axis.span());
        site.require(span <= extent, &[&x], || {
            (format!("a padded input of at least {span} on spatial axis {i}"), extent.to_string())
        })?;
        let SpatialAxis { kernel: size, stride, dilation, .. } = *axis;
        x = site.window(&x, WindowAxis { axis: (lead + i) as u8, size, stride, dilation });
    }
    Ok(x)
}
