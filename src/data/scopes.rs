//! The consumer thread's scopes, inherited by the workers.

use std::sync::Arc;

use crate::base::Device;
use crate::grad::{enable_grad, is_grad_enabled, no_grad};
use crate::plan::context::{Context, context_scope, current};
use crate::tensor::autocast::InheritedAutocast;
use crate::tensor::place::{default_device, device_scope};
use crate::tensor::random::{Generator, set_generator};

/// A thread's context, default device, gradient mode and mixed precision.
#[derive(Clone)]
pub struct ThreadScopes {
    context: Arc<Context>,
    device: Device,
    grad: bool,
    autocast: InheritedAutocast,
}

impl ThreadScopes {
    /// This thread's.
    pub fn here() -> ThreadScopes {
        ThreadScopes {
            context: current(),
            device: default_device(),
            grad: is_grad_enabled(),
            autocast: InheritedAutocast::here(),
        }
    }

    /// Runs the body in these scopes.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let _context = context_scope(self.context.clone());
        let _device = device_scope(self.device);
        let _grad = if self.grad { enable_grad() } else { no_grad() };
        let _autocast = self.autocast.open();
        body()
    }
}

/// Runs the body with another default generator, and puts this thread's back,
/// also when the body panics.
pub fn with_generator<R>(generator: Generator, body: impl FnOnce() -> R) -> R {
    struct RestoreGenerator(Option<Generator>);
    impl Drop for RestoreGenerator {
        fn drop(&mut self) {
            if let Some(generator) = self.0.take() {
                set_generator(generator);
            }
        }
    }
    let _restore = RestoreGenerator(Some(set_generator(generator)));
    body()
}
