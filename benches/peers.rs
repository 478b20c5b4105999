//! The work items that other libraries run too.
fn main() {}
