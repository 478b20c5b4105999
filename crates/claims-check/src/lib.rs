//! Nothing but its test, which runs kiln's protocol of claims under a model checker. It is a crate of its own because
//! whoever builds an example of kiln builds kiln's dev-dependencies too, and a model checker is a large one.
