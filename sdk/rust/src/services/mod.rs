//! Serves the extension points.

mod binding;
mod filtering;
mod handshake;
mod queueing;
mod scoring;

use std::sync::Arc;

use crate::shared::Shared;

/// Serves one service of the protocol for a plugin.
pub(crate) struct Server<P>(pub(crate) Arc<Shared<P>>);
