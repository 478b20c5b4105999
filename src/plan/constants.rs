//! Constants that operations compute on the host and need again, such as roots of unity: kept by a context,
//! where the device that reads them is.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{DType, Device};
use crate::ir::Node;

/// The most bytes that a context keeps of them.
const MOST_BYTES: usize = 256 << 20;

/// What a constant is: the function that computes it, its arguments, its type and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantKey {
    /// Name of the function.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: [usize; 3],
    /// Type of the elements.
    pub dtype: DType,
    /// Where they are read.
    pub device: Device,
}

/// Constants, those used last at the end.
#[derive(Default)]
pub struct Constants {
    entries: Mutex<Vec<(ConstantKey, Arc<Node>)>>,
}

impl Constants {
    /// The constant of this key, made if it is not there. Beyond a number of bytes, those not used for
    /// longest go.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get<E>(
        &self,
        key: ConstantKey,
        make: impl FnOnce() -> Result<Arc<Node>, E>,
    ) -> Result<Arc<Node>, E> {
        let find = |entries: &[(ConstantKey, Arc<Node>)]| entries.iter().position(|(known, _)| *known == key);
        let lock = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = lock();
        if let Some(at) = find(&entries) {
            let entry = entries.remove(at);
            entries.push(entry.clone());
            return Ok(entry.1);
        }
        // Another thread may make the same meanwhile: the values are equal.
        drop(entries);
        let node = make()?;
        let mut entries = lock();
        entries.push((key, node.clone()));
        let mut bytes: usize = entries.iter().map(|(_, node)| node.ty().bytes()).sum();
        while bytes > MOST_BYTES && entries.len() > 1 {
            bytes -= entries.remove(0).1.ty().bytes();
        }
        Ok(node)
    }
}

impl fmt::Debug for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(entries.iter().map(|(key, _)| key)).finish()
    }
}
