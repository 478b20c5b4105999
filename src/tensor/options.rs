//! Structures of optional arguments: fields with defaults, and a setter each.

/// Declares one: per field a doc line, a type, a default, and where the
/// setter takes something else, what that is and how it becomes the field.
macro_rules! options {
    ($(#[doc = $doc:literal])+ $name:ident {
        $($(#[doc = $field_doc:literal])+ $field:ident: $ty:ty = $default:expr $(, $arg:ty => $into:expr)?;)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            $(options! { @setter $field: $ty $(, $arg => $into)? })*
        }
    };
    (@setter $field:ident: $ty:ty) => {
        options! { @setter $field: $ty, $ty => std::convert::identity }
    };
    (@setter $field:ident: $ty:ty, $arg:ty => $into:expr) => {
        #[doc = concat!("With this `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: $arg) -> Self {
            self.$field = $into($field);
            self
        }
    };
}

pub(crate) use options;

use crate::tensor::Tensor;

/// An optional tensor, given.
pub(crate) fn some(tensor: &Tensor) -> Option<Tensor> {
    Some(tensor.clone())
}
