// Also change: internal/trireme/sdk/binding.py (which names the other languages' files).
use std::time::Duration;

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

use super::Server;
use crate::call::Item;
use crate::plugin::Plugin;
use crate::results::{Bound, Permit, PreBind, PreBindWait, coded};
use crate::v1::bind_plugin_server::BindPlugin;
use crate::v1::{self, Code};

fn item<'a>(of: &'a v1::BindItem, nobody: &'a v1::PodIdentity) -> Item<'a> {
    Item { pod: of.pod.as_ref().unwrap_or(nobody), node_name: &of.node_name, state: &of.state }
}

/// The most seconds that a message of Duration may have: 10,000 years.
const MOST_SECONDS: u64 = 315_576_000_000;

/// The duration, at most what the message may have: the scheduler limits waits to far less.
fn duration(of: Duration) -> prost_types::Duration {
    let of = of.min(Duration::from_secs(MOST_SECONDS));
    prost_types::Duration { seconds: of.as_secs() as i64, nanos: of.subsec_nanos() as i32 }
}

/// A wait must end.
fn waits(of: Duration) -> Result<(), crate::results::Status> {
    if of.is_zero() { Err(crate::results::Status::error("a wait must be longer than 0")) } else { Ok(()) }
}

/// A wait of PreBind is for an object, and ends.
fn checked(result: PreBind) -> Result<PreBind, crate::results::Status> {
    if let PreBind::Wait(wait) = &result {
        waits(wait.longest)?;
        if wait.objects.is_empty() {
            return Err(crate::results::Status::error("a wait of pre_bind must name an object"));
        }
    }
    Ok(result)
}

/// The status of a pod that waits; an empty message says nothing.
fn wait_status(message: String, plugin: &str) -> v1::Status {
    let messages = if message.is_empty() { Vec::new() } else { vec![message] };
    v1::Status { messages, ..coded(Code::Wait, plugin) }
}

/// The message of a wait, for an item with this state.
fn waiting(wait: PreBindWait, plugin: &str, state: &[u8]) -> v1::PreBindResult {
    v1::PreBindResult {
        status: Some(wait_status(wait.message, plugin)),
        wait_for: wait.objects,
        timeout: Some(duration(wait.longest)),
        state: wait.state.unwrap_or_else(|| state.to_vec()),
    }
}

#[async_trait]
impl<P: Plugin> BindPlugin for Server<P> {
    async fn permit(&self, request: Request<v1::PermitRequest>) -> Result<Response<v1::PermitResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let (mut results, nobody) = (Vec::new(), v1::PodIdentity::default());
            for of in &request.items {
                let answer = plugin.permit(&call, &item(of, &nobody)).await;
                let answer = answer.and_then(|permit| match &permit {
                    Permit::Wait(wait) => waits(wait.longest).map(|()| permit),
                    Permit::Allow => Ok(permit),
                });
                let (status, timeout) = match answer {
                    Err(status) => (status.to_message(shared.name()), None),
                    Ok(Permit::Allow) => (coded(Code::Success, shared.name()), None),
                    Ok(Permit::Wait(wait)) => (wait_status(wait.message, shared.name()), Some(duration(wait.longest))),
                };
                results.push(v1::PermitResult { status: Some(status), timeout, ..Default::default() });
            }
            Ok(v1::PermitResponse { results })
        };
        self.0.run("Permit", work).await.map(Response::new)
    }

    async fn pre_bind_pre_flight(
        &self,
        request: Request<v1::PreBindPreFlightRequest>,
    ) -> Result<Response<v1::PreBindPreFlightResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let (mut statuses, nobody) = (Vec::new(), v1::PodIdentity::default());
            for of in &request.items {
                statuses.push(match plugin.needs_pre_bind(&call, &item(of, &nobody)).await {
                    Err(status) => status.to_message(shared.name()),
                    Ok(work) => coded(if work { Code::Success } else { Code::Skip }, shared.name()),
                });
            }
            Ok(v1::PreBindPreFlightResponse { statuses })
        };
        self.0.run("PreBindPreFlight", work).await.map(Response::new)
    }

    async fn pre_bind(&self, request: Request<v1::PreBindRequest>) -> Result<Response<v1::PreBindResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let (mut results, nobody) = (Vec::new(), v1::PodIdentity::default());
            for of in &request.items {
                let status = match plugin.pre_bind(&call, &item(of, &nobody)).await.and_then(checked) {
                    Ok(PreBind::Wait(wait)) => {
                        results.push(waiting(wait, shared.name(), &of.state));
                        continue;
                    }
                    Err(status) => status.to_message(shared.name()),
                    Ok(PreBind::Done) => coded(Code::Success, shared.name()),
                    Ok(PreBind::Skip) => coded(Code::Skip, shared.name()),
                };
                // The state of the item stays what Reserve returned.
                results.push(v1::PreBindResult { status: Some(status), state: of.state.clone(), ..Default::default() });
            }
            Ok(v1::PreBindResponse { results })
        };
        self.0.run("PreBind", work).await.map(Response::new)
    }

    type BindStream = ReceiverStream<Result<v1::BindResponse, Status>>;

    async fn bind(&self, request: Request<v1::BindRequest>) -> Result<Response<Self::BindStream>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let (results, stream) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            let (inner, sender) = (shared.clone(), results.clone());
            let work = async move {
                let (plugin, call) = inner.begin(request.cycle, 1).await?;
                let nobody = v1::PodIdentity::default();
                for (index, of) in (0..).zip(&request.items) {
                    let status = match plugin.bind(&call, &item(of, &nobody)).await {
                        Err(status) => status.to_message(inner.name()),
                        Ok(Bound::Bound) => coded(Code::Success, inner.name()),
                        Ok(Bound::Skip) => coded(Code::Skip, inner.name()),
                    };
                    let result = v1::BindResult { index, status: Some(status) };
                    if sender.send(Ok(v1::BindResponse { results: vec![result] })).await.is_err() {
                        return Ok(()); // the caller has given up
                    }
                }
                Ok(())
            };
            if let Err(status) = shared.run("Bind", work).await {
                let _ = results.send(Err(status)).await; // the caller may be gone
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn post_bind(&self, request: Request<v1::PostBindRequest>) -> Result<Response<v1::PostBindResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let nobody = v1::PodIdentity::default();
            for of in &request.items {
                plugin.post_bind(&call, &item(of, &nobody)).await;
            }
            Ok(v1::PostBindResponse {})
        };
        self.0.run("PostBind", work).await.map(Response::new)
    }
}
