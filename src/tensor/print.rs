//! Tensors as text, laid out as PyTorch lays them out: one number format for
//! the whole tensor, aligned columns, large tensors by their edges. Types,
//! devices and truth values are spelled as in Rust.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use crate::base::{DType, Device, DeviceKind, Error, Result, Scalar, Shape};
use crate::ir::{Layout, Leaf, Node, Type, TypeParts};
use crate::plan;
use crate::plan::view::view;
use crate::runtime::host;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::filter::with_data;
use crate::tensor::read::number;

/// How values become text.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::PrintOpts;
/// let text = Tensor::from([0.5f32]).to_text_with(PrintOpts::default().precision(1))?;
/// assert!(text.contains("[0.5]"), "{text}");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrintOpts {
    /// Digits after the decimal point.
    pub precision: usize,
    /// The number of elements above which only the edges are printed.
    pub threshold: usize,
    /// Elements printed at either end of an axis when only the edges are.
    pub edge_items: usize,
    /// Characters in a line.
    pub line_width: usize,
}

impl Default for PrintOpts {
    /// PyTorch's: 4 digits, all of up to 1000 elements, edges of 3, lines of 80.
    fn default() -> PrintOpts {
        PrintOpts { precision: 4, threshold: 1000, edge_items: 3, line_width: 80 }
    }
}

impl PrintOpts {
    /// With this many digits after the decimal point.
    #[must_use]
    pub fn precision(mut self, digits: usize) -> PrintOpts {
        self.precision = digits;
        self
    }
    /// With all elements printed up to this number of them.
    #[must_use]
    pub fn threshold(mut self, elements: usize) -> PrintOpts {
        self.threshold = elements;
        self
    }
    /// With this many elements at either end of a shortened axis.
    #[must_use]
    pub fn edge_items(mut self, elements: usize) -> PrintOpts {
        self.edge_items = elements;
        self
    }
    /// With lines of this many characters.
    #[must_use]
    pub fn line_width(mut self, characters: usize) -> PrintOpts {
        self.line_width = characters;
        self
    }
}

impl Tensor {
    /// The values as text, computed if need be.
    ///
    /// # Errors
    /// As [`Tensor::realize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let text = Tensor::from([1i64, 2]).to_text()?;
    /// assert!(text.contains("[1, 2]"), "{text}");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_text(&self) -> Result<String> {
        values_as_text(CallSite::here("to_text"), self, PrintOpts::default())
    }

    /// As [`Tensor::to_text`], with other digits, edges or lines.
    ///
    /// # Errors
    /// As [`Tensor::realize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::PrintOpts;
    /// let x = Tensor::from([1.0f32, 2.25]);
    /// let text = x.to_text_with(PrintOpts::default().precision(2))?;
    /// assert!(text.contains("[1.00, 2.25]"), "{text}");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_text_with(&self, opts: PrintOpts) -> Result<String> {
        values_as_text(CallSite::here("to_text_with"), self, opts)
    }

    /// Computes the values if need be and prints them to the standard output.
    ///
    /// # Errors
    /// As [`Tensor::realize`], or a standard output that is closed.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// Tensor::from([[1i64, 2], [3, 4]]).show()?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn show(&self) -> Result<()> {
        let site = CallSite::here("show");
        let text = values_as_text(site, self, PrintOpts::default())?;
        let closed = |error: std::io::Error| Error::File {
            path: "standard output".into(),
            message: error.to_string(),
            span: site.span,
        };
        writeln!(std::io::stdout(), "{text}").map_err(closed)
    }
}

fn values_as_text(site: CallSite, x: &Tensor, opts: PrintOpts) -> Result<String> {
    with_data(site, x)?;
    let node = x.node()?;
    plan::realize(std::slice::from_ref(node), site.span)?;
    if let Some(text) = text_in_memory(node, opts) {
        return Ok(text);
    }
    let bytes = x.read(site.name, site.span)?;
    Ok(text_of_bytes(node.ty(), &bytes, &Layout::contiguous(&node.ty().shape), opts))
}

/// The values if they are in host memory, else the type and "lazy", or how to see them on
/// another device; the error, for an invalid tensor. Nothing runs. A precision (`{x:.2}`) is
/// the number of digits.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = match self.node() {
            Ok(node) => node,
            Err(error) => return write!(f, "tensor(invalid: {error})"),
        };
        let default = PrintOpts::default();
        if let Some(text) =
            text_in_memory(node, default.precision(f.precision().unwrap_or(default.precision)))
        {
            return f.write_str(&text);
        }
        let TypeParts { shape, dtype, device } = &**node.ty();
        let state = match (device.is_meta(), node.value().is_some()) {
            (true, _) => "",
            (false, false) => ", lazy",
            (false, true) => "; `show` prints its values",
        };
        write!(f, "tensor(shape {shape}, {dtype}, {device}{state})")
    }
}

/// The text of a tensor of type `ty` whose element at an index is what `at`
/// says; only elements that are printed are asked for, in row-major order.
pub fn text(ty: &Type, at: &mut dyn FnMut(&[usize]) -> Scalar, opts: PrintOpts) -> String {
    let mut out = String::from(PREFIX);
    if ty.shape.numel() == 0 {
        out.push_str("[]");
    } else {
        let edges = (ty.shape.numel() > opts.threshold).then_some(opts.edge_items);
        let mut values = Vec::new();
        visit(&ty.shape, edges, &mut Vec::new(), &mut |index| values.push(at(index)));
        let page = Page { shape: &ty.shape, edges, style: Style::of(&values, ty.dtype, opts), opts };
        page.write(0, &mut values.into_iter(), &mut out);
    }
    suffixes(ty, opts, &mut out);
    out.push(')');
    out
}

const PREFIX: &str = "tensor(";

/// The text of a node whose value is in host memory or a view of it.
fn text_in_memory(node: &std::sync::Arc<Node>, opts: PrintOpts) -> Option<String> {
    let Leaf { buffer, layout } = view(node)?;
    (buffer.device.kind == DeviceKind::Cpu)
        .then(|| text_of_bytes(node.ty(), host::bytes(&buffer), &layout, opts))
}

fn text_of_bytes(ty: &Type, bytes: &[u8], layout: &Layout, opts: PrintOpts) -> String {
    let size = ty.dtype.size();
    let mut at = |index: &[usize]| {
        let steps = index.iter().zip(&layout.strides).map(|(&i, &stride)| i as i64 * stride);
        let start = (layout.offset + steps.sum::<i64>()) as usize * size;
        Scalar::from_bits(number(&bytes[start..start + size]), ty.dtype)
    };
    text(ty, &mut at, opts)
}

/// The positions of an axis that are printed; `None` stands for those left out.
fn shown(extent: usize, edges: Option<usize>) -> impl Iterator<Item = Option<usize>> {
    let cut = edges.filter(|&edge| extent > 2 * edge);
    let (head, tail) = cut.map_or((extent, extent), |edge| (edge, extent - edge));
    (0..head).map(Some).chain(cut.map(|_| None)).chain((tail..extent).map(Some))
}

/// Visits the elements that are printed, in row-major order.
fn visit(shape: &Shape, edges: Option<usize>, index: &mut Vec<usize>, see: &mut dyn FnMut(&[usize])) {
    let Some(&extent) = shape.get(index.len()) else { return see(index) };
    for position in shown(extent, edges).flatten() {
        index.push(position);
        visit(shape, edges, index, see);
        index.pop();
    }
}

/// What all elements have in common.
struct Style {
    notation: Notation,
    /// Characters of the widest finite element.
    width: usize,
}

enum Notation {
    /// Integers and truth values.
    Plain,
    /// Floats that are all whole: `1.`
    Whole,
    /// `1.5000`
    Fixed(usize),
    /// `1.5000e+00`
    Scientific(usize),
}

impl Style {
    /// Scientific where magnitudes differ more than a thousandfold or go
    /// beyond 1e8, or, unless all numbers are whole, below 1e-4.
    fn of(values: &[Scalar], dtype: DType, opts: PrintOpts) -> Style {
        if !dtype.is_float() {
            return Style::fitting(Notation::Plain, values.iter().copied());
        }
        let counted = || values.iter().copied().filter(|v| v.as_f64().is_finite() && v.as_f64() != 0.0);
        let magnitudes = || counted().map(|v| v.as_f64().abs());
        let (least, most) = (magnitudes().fold(f64::INFINITY, f64::min), magnitudes().fold(0.0, f64::max));
        let whole = magnitudes().all(|m| m.fract() == 0.0);
        let spread = most > 1e8 || most / least > 1000.0 || (!whole && least < 1e-4);
        let notation = match (spread, whole) {
            (true, _) => Notation::Scientific(opts.precision),
            (false, true) => Notation::Whole,
            (false, false) => Notation::Fixed(opts.precision),
        };
        Style::fitting(notation, counted())
    }

    fn fitting(notation: Notation, values: impl Iterator<Item = Scalar>) -> Style {
        let width = values.map(|value| notation.text(value).len()).max().unwrap_or(1);
        Style { notation, width }
    }
}

impl Notation {
    fn text(&self, value: Scalar) -> String {
        let number = value.as_f64();
        match self {
            Notation::Plain => value.to_string(),
            _ if number.is_nan() => "nan".into(),
            _ if number.is_infinite() => format!("{number}"),
            Notation::Whole => format!("{number:.0}."),
            Notation::Fixed(digits) => format!("{number:.digits$}"),
            Notation::Scientific(digits) => scientific(number, *digits),
        }
    }
}

/// With a signed exponent of at least two digits, as C writes it.
fn scientific(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    match text.split_once('e').map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>())) {
        Some((mantissa, Ok(exponent))) => format!("{mantissa}e{exponent:+03}"),
        Some((_, Err(_))) | None => text,
    }
}

/// A tensor with at least one element, ready to be laid out.
struct Page<'a> {
    shape: &'a Shape,
    edges: Option<usize>,
    style: Style,
    opts: PrintOpts,
}

impl Page<'_> {
    /// Writes the elements below `depth` fixed indices, taken from `values`.
    fn write(&self, depth: usize, values: &mut dyn Iterator<Item = Scalar>, out: &mut String) {
        let left = self.shape.rank() - depth;
        if left == 0 {
            return self.element(values, out);
        }
        // Rows start in the column after this bracket.
        let column = PREFIX.len() + depth;
        let per_line = (self.opts.line_width.saturating_sub(column) / (self.style.width + 2)).max(1);
        out.push('[');
        for (i, position) in shown(self.shape[depth], self.edges).enumerate() {
            if i > 0 && (left > 1 || i % per_line == 0) {
                let breaks = (left - 1).max(1);
                let _ = write!(out, ",{}{}", "\n".repeat(breaks), " ".repeat(column + 1));
            } else if i > 0 {
                out.push_str(", ");
            }
            match position {
                Some(_) => self.write(depth + 1, values, out),
                None if left == 1 => out.push_str(" ..."),
                None => out.push_str("..."),
            }
        }
        out.push(']');
    }

    fn element(&self, values: &mut dyn Iterator<Item = Scalar>, out: &mut String) {
        let value = values.next().map(|value| self.style.notation.text(value)).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(out, "{value:>0$}", self.style.width);
    }
}

/// Appends what the values do not say: another device than the CPU, the
/// shape of no elements, a type that is not the one such values suggest.
fn suffixes(ty: &Type, opts: PrintOpts, out: &mut String) {
    let empty = ty.shape.numel() == 0;
    let usual = match ty.dtype {
        DType::F32 => true,
        DType::I64 | DType::Bool => !empty,
        DType::U8 | DType::I32 | DType::U32 | DType::F16 | DType::BF16 | DType::F64 => false,
    };
    let device = (ty.device != Device::cpu()).then(|| format!("device={}", ty.device));
    let shape = (empty && ty.shape.rank() != 1).then(|| format!("shape={}", ty.shape));
    let dtype = (!usual).then(|| format!("dtype={}", ty.dtype));
    for suffix in [device, shape, dtype].into_iter().flatten() {
        let column = out.len() - out.rfind('\n').map_or(0, |at| at + 1);
        if column + suffix.len() + 4 > opts.line_width {
            let _ = write!(out, ",\n{}{suffix}", " ".repeat(PREFIX.len()));
        } else {
            let _ = write!(out, ", {suffix}");
        }
    }
}

#[cfg(test)]
mod tests;
