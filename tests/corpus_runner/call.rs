//! One call: arguments bound to parameter names, taken with their types.
//!
//! A mapping takes every argument by name. What it does not take is reported
//! when the call ends, so that no argument is silently ignored.

use std::cell::RefCell;
use std::fmt::Display;

use kiln::tensor::operand::OperandValue;
use kiln::tensor::{AxisList, Place, Tensor};
use kiln::{DType, Error, Scalar};

use super::arg::Arg;
use super::target::Target;

/// Why a call has no result.
#[derive(Debug)]
pub enum Stop {
    /// kiln has no such operation, or not with this argument.
    Unsupported(String),
    /// Rust's types do not let the call be written: a number where kiln takes
    /// a tensor, an `out=` tensor.
    Inexpressible(String),
    /// kiln refused it.
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refused(error)
    }
}

/// The result of a mapping.
pub type Outcome<T = Vec<Tensor>> = Result<T, Stop>;

/// A recorded call on its way to kiln.
pub struct Call<'a> {
    bound: RefCell<Vec<(String, Arg)>>,
    inputs: &'a [Tensor],
    target: Target,
}

impl<'a> Call<'a> {
    /// Binds arguments to `parameters`, names apart by spaces; a name with a
    /// star takes all positional arguments that are left, as a list.
    ///
    /// # Errors
    /// More arguments than parameters, or a keyword that is none of them.
    pub fn bind(
        parameters: &str,
        args: &[Arg],
        keywords: &[(String, Arg)],
        inputs: &'a [Tensor],
        target: Target,
    ) -> Outcome<Call<'a>> {
        let mut bound = Vec::new();
        let mut args = args.iter();
        for name in parameters.split_whitespace() {
            if let Some(name) = name.strip_prefix('*') {
                if keywords.iter().any(|(keyword, _)| keyword == name) {
                    continue;
                }
                bound.push((name.to_string(), Arg::List(args.by_ref().cloned().collect())));
            } else if let Some(arg) = args.next() {
                bound.push((name.to_string(), arg.clone()));
            }
        }
        if let Some(extra) = args.next() {
            return Err(Stop::Unsupported(format!("one argument too many: {extra:?}")));
        }
        for (name, arg) in keywords {
            if name == "out" {
                return Err(Stop::Inexpressible("results are new tensors, so there is no out=".into()));
            }
            if is_idle(name, arg) {
                continue;
            }
            if !parameters.split_whitespace().any(|p| p.trim_start_matches('*') == name) {
                return Err(Stop::Unsupported(format!("argument {name}={arg:?}")));
            }
            bound.push((name.clone(), arg.clone()));
        }
        Ok(Call { bound: RefCell::new(bound), inputs, target })
    }

    /// Reports an argument that the mapping has not taken; `None` is no
    /// argument.
    ///
    /// # Errors
    /// The first such argument.
    pub fn finish(&self) -> Outcome<()> {
        let bound = self.bound.borrow();
        match bound.iter().find(|(_, arg)| !matches!(arg, Arg::None)) {
            Some((name, arg)) => Err(Stop::Unsupported(format!("argument {name}={arg:?}"))),
            None => Ok(()),
        }
    }

    /// Where new tensors go: the device under test, with the call's dtype.
    pub fn place(&self) -> Outcome<Place> {
        Ok(Place { dtype: self.dtype("dtype")?, ..self.target.place() })
    }

    /// Takes an argument; `None` and an absent one are the same.
    pub fn take(&self, name: &str) -> Option<Arg> {
        let mut bound = self.bound.borrow_mut();
        let at = bound.iter().position(|(bound, _)| bound == name)?;
        match bound.remove(at).1 {
            Arg::None => None,
            arg => Some(arg),
        }
    }

    /// Whether the argument is there (and not `None`).
    pub fn has(&self, name: &str) -> bool {
        self.bound.borrow().iter().any(|(bound, arg)| bound == name && !matches!(arg, Arg::None))
    }

    /// Whether the argument is a tensor.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.bound.borrow().iter().any(|(bound, arg)| bound == name && matches!(arg, Arg::Tensor(_)))
    }

    /// Gives back an argument taken, or another in its place.
    pub fn put(&self, name: &str, arg: Arg) {
        self.bound.borrow_mut().push((name.to_string(), arg));
    }

    /// A tensor argument, looked at but not taken.
    pub fn peek_tensor(&self, name: &str) -> Option<Tensor> {
        let bound = self.bound.borrow();
        let (_, arg) = bound.iter().find(|(bound, _)| bound == name)?;
        self.input(arg)
    }

    /// The input that an argument names.
    ///
    /// # Errors
    /// An argument that names none.
    pub fn resolve(&self, arg: &Arg) -> Outcome<Tensor> {
        self.input(arg).ok_or_else(|| wrong("an item", arg, "a tensor"))
    }

    /// The values of integers that decide a shape, which must be known before
    /// the call is made.
    ///
    /// # Errors
    /// kiln's, and a tensor of another kind.
    pub fn known(&self, tensor: &Tensor) -> Outcome<Vec<i64>> {
        if matches!(tensor.dtype(), DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
            return Err(Stop::Inexpressible("integers are needed, given floats".into()));
        }
        match tensor.to_dtype(DType::I64).to_vec::<i64>() {
            Err(Error::CannotBlock { .. }) => {
                Err(Stop::Unsupported("values asked for where none may wait".into()))
            }
            known => Ok(known?),
        }
    }

    /// Takes an argument that kiln knows in one form only.
    ///
    /// # Errors
    /// Another form.
    pub fn ignore(&self, name: &str, known: impl Fn(&Arg) -> bool) -> Outcome<()> {
        match self.take(name) {
            Some(arg) if !known(&arg) => Err(Stop::Unsupported(format!("{name}={arg:?}"))),
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether a keyword changes nothing about the values: where PyTorch would
/// put them (the device under test stands for the CPU), how it would lay them
/// out, whether it would record gradients or overwrite the input.
fn is_idle(name: &str, arg: &Arg) -> bool {
    match name {
        "device" => matches!(arg, Arg::None) || matches!(arg, Arg::Text(name) if name == "cpu"),
        "layout" | "memory_format" => true,
        "inplace" | "pin_memory" | "requires_grad" => matches!(arg, Arg::None | Arg::Number(Scalar::Bool(_))),
        _ => false,
    }
}

fn wrong(name: &str, arg: &Arg, expected: impl Display) -> Stop {
    if let Arg::Other(text) = arg {
        return Stop::Unsupported(format!("{name}={text}"));
    }
    Stop::Inexpressible(format!("{name} is {expected}, given {arg:?}"))
}

fn missing(name: &str) -> Stop {
    Stop::Inexpressible(format!("{name} is required"))
}

/// Typed arguments: `name` is required, `opt_name` may be absent.
macro_rules! getters {
    ($($(#[doc = $doc:literal])* $required:ident $optional:ident $result:ty, $expected:literal,
       |$call:ident, $arg:ident| $body:expr;)*) => {
        impl Call<'_> {$(
            $(#[doc = $doc])*
            pub fn $optional(&self, name: &str) -> Outcome<Option<$result>> {
                let Some($arg) = self.take(name) else { return Ok(None) };
                let $call = self;
                let value: Option<$result> = $body;
                value.map(Some).ok_or_else(|| wrong(name, &$arg, $expected))
            }
            $(#[doc = $doc])*
            #[allow(dead_code, reason = "some are always optional")]
            pub fn $required(&self, name: &str) -> Outcome<$result> {
                self.$optional(name)?.ok_or_else(|| missing(name))
            }
        )*}
    };
}

getters! {
    /// A tensor.
    tensor opt_tensor Tensor, "a tensor", |call, arg| call.input(&arg);
    /// A list of tensors.
    tensors opt_tensors Vec<Tensor>, "a list of tensors", |call, arg| match &arg {
        Arg::List(items) => match items.as_slice() {
            [Arg::List(inner)] => inner.iter().map(|item| call.input(item)).collect(),
            items => items.iter().map(|item| call.input(item)).collect(),
        },
        _ => None,
    };
    /// A tensor or a number.
    operand opt_operand OperandValue, "a tensor or a number", |call, arg| match &arg {
        Arg::Number(number) => Some(OperandValue::Scalar(*number)),
        other => call.input(other).map(OperandValue::Tensor),
    };
    /// A number.
    scalar opt_scalar Scalar, "a number", |_call, arg| number(&arg);
    /// A floating-point number.
    float opt_float f64, "a number", |_call, arg| number(&arg).map(Scalar::as_f64);
    /// An integer.
    int opt_int i64, "an integer", |_call, arg| integer(&arg);
    /// A truth value.
    flag opt_flag bool, "a truth value", |_call, arg| match &arg {
        Arg::Number(Scalar::Bool(flag)) => Some(*flag),
        _ => None,
    };
    /// Text.
    text opt_text String, "text", |_call, arg| match &arg {
        Arg::Text(text) => Some(text.clone()),
        _ => None,
    };
    /// A list of numbers, or one.
    floats opt_floats Vec<f64>, "numbers", |_call, arg| match &arg {
        Arg::List(items) => items.iter().map(|item| number(item).map(Scalar::as_f64)).collect(),
        one => number(one).map(|number| vec![number.as_f64()]),
    };
    /// A list of integers, or one.
    ints opt_ints Vec<i64>, "integers", |_call, arg| match &arg {
        Arg::List(items) => match items.as_slice() {
            [Arg::List(inner)] => inner.iter().map(integer).collect(),
            items => items.iter().map(integer).collect(),
        },
        one => integer(one).map(|i| vec![i]),
    };
}

fn number(arg: &Arg) -> Option<Scalar> {
    match arg {
        Arg::Number(number) => Some(*number),
        _ => None,
    }
}

/// The integer that an argument is.
pub fn integer(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Number(Scalar::Int(i)) => Some(*i),
        Arg::Number(Scalar::Bool(b)) => Some(i64::from(*b)),
        _ => None,
    }
}

impl Call<'_> {
    /// The tensor that an argument is, if it is one.
    fn input(&self, arg: &Arg) -> Option<Tensor> {
        match arg {
            Arg::Tensor(k) => self.inputs.get(*k).cloned(),
            _ => None,
        }
    }

    /// A truth value that is `false` unless given.
    pub fn is(&self, name: &str) -> Outcome<bool> {
        Ok(self.opt_flag(name)?.unwrap_or(false))
    }

    /// Axes: an integer, a list, or all where absent or `None`.
    pub fn axes(&self, name: &str) -> Outcome<AxisList> {
        let axes = self.opt_ints(name)?;
        Ok(axes.map_or(AxisList::All, |axes| AxisList::These(axes.into())))
    }

    /// Axes where an empty list, too, means all.
    pub fn axes_or_all(&self, name: &str) -> Outcome<AxisList> {
        let axes = self.opt_ints(name)?.filter(|axes| !axes.is_empty());
        Ok(axes.map_or(AxisList::All, |axes| AxisList::These(axes.into())))
    }

    /// A list of sizes.
    ///
    /// # Errors
    /// A negative size, which Rust's `usize` does not have.
    pub fn sizes(&self, name: &str) -> Outcome<Vec<usize>> {
        let sizes = self.ints(name)?;
        let size =
            |i: &i64| usize::try_from(*i).map_err(|_| wrong(name, &Arg::Number((*i).into()), "a size"));
        sizes.iter().map(size).collect()
    }

    /// A size.
    ///
    /// # Errors
    /// A negative one, which Rust's `usize` does not have.
    pub fn size(&self, name: &str) -> Outcome<usize> {
        let size = self.int(name)?;
        usize::try_from(size).map_err(|_| wrong(name, &Arg::Number(size.into()), "a size"))
    }

    /// Integers as a tensor, whether they are given as one or as a list.
    pub fn lengths(&self, name: &str) -> Outcome<Tensor> {
        if self.has_tensor(name) {
            return self.tensor(name);
        }
        let lengths = self.ints(name)?;
        Ok(Tensor::from_slice(&lengths, [lengths.len()], self.target.place()))
    }

    /// An element type, if given.
    pub fn dtype(&self, name: &str) -> Outcome<Option<DType>> {
        match self.take(name) {
            None => Ok(None),
            Some(Arg::DType(dtype)) => Ok(Some(dtype)),
            Some(Arg::OtherDType(name)) => Err(Stop::Unsupported(format!("dtype {name}"))),
            Some(other) => Err(wrong(name, &other, "a dtype")),
        }
    }
}

impl Call<'_> {
    /// The tensor `self`, cast to `dtype` if that is given.
    pub fn converted(&self) -> Outcome<Tensor> {
        let x = self.tensor("self")?;
        Ok(match self.dtype("dtype")? {
            Some(dtype) => x.to_dtype(dtype),
            None => x,
        })
    }
}

/// What stops a call whose argument has a value kiln does not know.
pub fn unsupported<T>(name: &str, value: impl Display) -> Outcome<T> {
    Err(Stop::Unsupported(format!("{name}={value}")))
}
