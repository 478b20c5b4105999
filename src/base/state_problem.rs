//! What can be wrong with a saved state.

use std::fmt;

use kiln_simd::DType;

use crate::base::shape::Shape;

/// One thing that does not fit between a saved state and what it is loaded
/// into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateProblem {
    /// A file that is damaged or not what its name says.
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// A file of another kind.
    Format {
        /// The file.
        path: String,
        /// What it was opened as.
        expected: &'static str,
        /// What it is.
        found: &'static str,
        /// What opens it, if anything does.
        door: Option<&'static str>,
    },
    /// A tensor that is needed and not there.
    Missing {
        /// Its name.
        name: String,
        /// Its type and shape.
        expected: (DType, Shape),
        /// A name much like it that is there and that nothing asks for.
        near: Option<String>,
    },
    /// A tensor that nothing asks for.
    Unexpected {
        /// Its name.
        name: String,
        /// Its type and shape.
        found: (DType, Shape),
    },
    /// A tensor of another type or shape.
    Mismatch {
        /// Its name.
        name: String,
        /// What is needed.
        expected: (DType, Shape),
        /// What is there.
        found: (DType, Shape),
    },
    /// Two tensors that renaming gives one name.
    Renamed {
        /// The name.
        name: String,
        /// The names before.
        sources: [String; 2],
    },
    /// A tensor of a type that kiln does not compute with.
    Raw {
        /// Its name.
        name: String,
        /// What is needed, if anything is.
        expected: Option<(DType, Shape)>,
        /// What is there: the file's name of the type, and the shape.
        found: (String, Shape),
    },
}

impl fmt::Display for StateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateProblem::File { path, message } => write!(f, "{path}: {message}"),
            StateProblem::Format { path, expected, found, door } => {
                write!(f, "{path}: expected {expected}, found {found}")?;
                door.map_or(Ok(()), |door| write!(f, ", which is opened by {door}"))
            }
            StateProblem::Missing { name, expected: (dtype, shape), near } => {
                write!(f, "{name}: expected {dtype}{shape}, found nothing")?;
                near.as_ref().map_or(Ok(()), |near| write!(f, "; is it {near}?"))
            }
            StateProblem::Renamed { name, sources: [a, b] } => {
                write!(f, "{name}: expected one tensor that is renamed to it, found {a} and {b}")
            }
            StateProblem::Unexpected { name, found: (dtype, shape) } => {
                write!(f, "{name}: expected nothing, found {dtype}{shape}")
            }
            StateProblem::Mismatch { name, expected, found } => {
                write!(f, "{name}: expected {}{}, found {}{}", expected.0, expected.1, found.0, found.1)
            }
            StateProblem::Raw { name, expected, found: (dtype, shape) } => {
                let expected = expected.as_ref().map_or("nothing".into(), |(d, shape)| format!("{d}{shape}"));
                write!(
                    f,
                    "{name}: expected {expected}, found {dtype}{shape}, which StateDict::convert may convert"
                )
            }
        }
    }
}
