// Also change: sdk/go/doc.go, internal/trireme/sdk/__init__.py, sdk/typescript/src/index.ts (the first example).

//! Scheduler plugins for Trireme in Rust: a type with the methods of the extension points that it takes part in.
//!
//! ```no_run
//! use trireme_sdk::{Call, Dependency, Info, Node, NodeData, Plugin, Point, Status, Verdict};
//!
//! struct Maintenance;
//!
//! impl Plugin for Maintenance {
//!     fn filter(&self, _call: &Call, node: &Node) -> Verdict {
//!         if node.labels().contains_key("example.com/maintenance") {
//!             return Status::unresolvable("node(s) were under maintenance").into();
//!         }
//!         Verdict::Pass
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let info = Info::new("Maintenance", [Point::Filter])
//!         .depends_on(Dependency::Node)
//!         .node_data(NodeData::Messages);
//!     trireme_sdk::main(info, Maintenance)
//! }
//! ```
//!
//! That is a complete plugin: `maintenance --listen 127.0.0.1:9000` serves it, with health and reflection. Whatever a
//! method returns, or panics with, the scheduler gets a message of the protocol or a gRPC error that names the plugin and
//! the step; the process continues.

mod admission;
mod call;
mod cluster;
mod configuration;
mod fencing;
mod follower;
mod handle;
mod info;
mod metrics;
mod objects;
mod plugin;
mod results;
mod serving;
mod shared;
mod services;
mod tls;

/// The messages and services of the protocol, generated from the protos.
#[allow(missing_docs, clippy::all)]
#[path = "v1/trireme.v1.rs"]
pub mod v1;

pub use call::{Call, Item, Node, Placement, PlacementTrial, PlacedPod};
pub use cluster::Cluster;
pub use configuration::{ArgumentErrors, Configuration};
pub use handle::Handle;
pub use info::{Dependency, Event, Info, NodeData, Normalization, Point};
pub use plugin::Plugin;
pub use results::{Bound, Feasible, Permit, PermitWait, PreBind, PreBindWait, PreFilter, Ready, SortKey, Status, Verdict};
pub use serving::{Options, main, main_with, serve, serve_with};
pub use tls::TlsFiles;
pub use tonic::async_trait;
