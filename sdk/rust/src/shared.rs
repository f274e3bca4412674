// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).

//! What the services of one plugin have in common.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, Once};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tonic::Status;

use crate::call::Call;
use crate::configuration::{ArgumentErrors, Configuration, Configured};
use crate::fencing::{CONFIG_MISMATCH, Epochs, refusal};
use crate::follower::Follower;
use crate::info::Info;
use crate::v1;

pub(crate) type Factory<P> = dyn Fn(Configuration) -> Result<P, ArgumentErrors> + Send + Sync;

/// What the headers of an RPC say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// When it gives up.
    pub(crate) deadline: Option<Instant>,
    /// Its W3C trace context; None: it does not trace.
    pub(crate) trace_parent: Option<String>,
}

tokio::task_local! {
    /// The caller of the RPC.
    pub(crate) static CALLER: Caller;
}

/// How a plugin is made.
pub(crate) enum Source<P> {
    One(Arc<P>),
    Factory(Box<Factory<P>>),
}

pub(crate) struct Shared<P> {
    pub(crate) info: Info,
    pub(crate) instance: String,
    pub(crate) follower: Option<Follower>,
    source: Source<P>,
    configured: Mutex<Configured<P>>,
    epochs: Mutex<Epochs>,
    pub(crate) cluster_use_logged: Once,
    turns: Option<Semaphore>,
}

/// Ends a task whose caller has given up.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<P: Send + Sync + 'static> Shared<P> {
    pub(crate) fn new(info: Info, source: Source<P>, instance: String, follower: Option<Follower>) -> Self {
        let limit = info.message.max_concurrent_calls as usize;
        Self {
            turns: (limit > 0).then(|| Semaphore::new(limit)),
            info,
            instance,
            follower,
            source,
            configured: Mutex::default(),
            epochs: Mutex::default(),
            cluster_use_logged: Once::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.message.name
    }

    /// Makes the plugin for a profile's arguments.
    pub(crate) fn configure(&self, request: &v1::ConfigureRequest) -> Result<v1::ConfigureResponse, Status> {
        let Source::Factory(factory) = &self.source else {
            return Err(Status::unimplemented(format!("plugin {} takes no arguments", self.name())));
        };
        match factory(Configuration::new(request)) {
            Err(errors) => Ok(errors.to_message()),
            Ok(plugin) => {
                let mut configured = self.configured.lock().expect("no panic while it is held");
                configured.add(request.config_hash, request.profile.clone(), Arc::new(plugin));
                Ok(v1::ConfigureResponse::default())
            }
        }
    }

    /// The plugin of a configuration.
    pub(crate) fn plugin(&self, hash: u64, profile: Option<&str>) -> Result<Arc<P>, Status> {
        if let Source::One(plugin) = &self.source {
            return Ok(plugin.clone());
        }
        let configured = self.configured.lock().expect("no panic while it is held");
        configured.get(hash, profile).ok_or_else(|| {
            let text = format!("config_hash: plugin {} does not have this configuration", self.name());
            refusal(CONFIG_MISMATCH, text)
        })
    }

    /// The plugin and the call of a cycle, once its caller is admitted and the cluster is as new as it says.
    pub(crate) async fn begin(&self, cycle: Option<v1::Cycle>, count: u32) -> Result<(Arc<P>, Call), Status> {
        let cycle = cycle.unwrap_or_default();
        self.epochs.lock().expect("no panic while it is held").admit(&cycle.fence.clone().unwrap_or_default())?;
        let plugin = self.plugin(cycle.config_hash, Some(&cycle.profile))?;
        let cluster = match &self.follower {
            Some(follower) => Some(follower.wait(&cycle).await?),
            None => None,
        };
        let caller = caller();
        let call = Call {
            pod: cycle.pod.unwrap_or_default(),
            profile: cycle.profile,
            count: count.max(1),
            deadline: caller.deadline,
            trace_parent: caller.trace_parent,
            state: cycle.state,
            cluster,
            generation: cycle.generation,
            ..Default::default()
        };
        Ok((plugin, call))
    }

    /// Runs one RPC in turn. A panic is an error that names plugin and step; a caller that gives up ends it.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        step: &'static str,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let _turn = match &self.turns {
            Some(turns) => Some(turns.acquire().await.map_err(|_| Status::unavailable("the process ends"))?),
            None => None,
        };
        let mut task = AbortOnDrop(tokio::spawn(AssertUnwindSafe(CALLER.scope(caller(), work)).0));
        (&mut task.0).await.unwrap_or_else(|error| Err(self.failed(step, &ended_text(error))))
    }

    pub(crate) fn failed(&self, step: &str, error: &str) -> Status {
        tracing::error!(plugin = self.name(), step, error, "a step failed");
        Status::internal(format!("plugin {}: {step}: {error}", self.name()))
    }
}

/// The caller of the RPC that this task is for.
fn caller() -> Caller {
    CALLER.try_with(Caller::clone).unwrap_or_default()
}

fn ended_text(error: JoinError) -> String {
    error.try_into_panic().map_or_else(|_| "was cancelled".into(), panic_text)
}

/// What a panic says.
pub(crate) fn panic_text(cause: Box<dyn Any + Send>) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "of an unknown kind".into()))
}
