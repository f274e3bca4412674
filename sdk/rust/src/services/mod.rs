// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).

//! Serves the extension points.

mod binding;
mod filtering;
mod handshake;
mod placing;
mod queueing;
mod scoring;

use std::sync::Arc;

use crate::shared::Shared;

/// Every so many nodes a call that its caller has given up may end.
const NODES_AT_ONCE: usize = 128;

/// Called before each node, has a task end that was aborted, although the plugin's method does not wait.
pub(crate) async fn end_if_cancelled(at: usize) {
    if at % NODES_AT_ONCE == NODES_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}

/// Serves one service of the protocol for a plugin.
pub(crate) struct Server<P>(pub(crate) Arc<Shared<P>>);
