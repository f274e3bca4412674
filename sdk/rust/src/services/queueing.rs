// Also change: internal/trireme/sdk/queueing.py (which names the other languages' files).
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tonic::{Request, Response, Status, async_trait};

use super::Server;
use crate::info::Point;
use crate::plugin::Plugin;
use crate::results::{self, SortKey, coded};
use crate::shared::panic_text;
use crate::v1::queue_service_server::QueueService;
use crate::v1::{self, Code, Hint};

/// An event's object; None where there is none.
fn object(field: &str, json: &[u8]) -> Result<Option<Value>, Status> {
    if json.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(json).map(Some).map_err(|error| Status::invalid_argument(format!("{field}: {error}")))
}

#[async_trait]
impl<P: Plugin> QueueService for Server<P> {
    async fn pre_enqueue(
        &self,
        request: Request<v1::PreEnqueueRequest>,
    ) -> Result<Response<v1::PreEnqueueResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let plugin = shared.plugin(request.config_hash, Some(&request.profile))?;
            let statuses = request.pods.iter().map(|pod| match plugin.pre_enqueue(pod, &request.profile) {
                Err(status) => status.to_message(shared.name()),
                Ok(()) => coded(Code::Success, shared.name()),
            });
            Ok(v1::PreEnqueueResponse { statuses: statuses.collect() })
        };
        self.0.run("PreEnqueue", work).await.map(Response::new)
    }

    async fn queue_sort(&self, request: Request<v1::QueueSortRequest>) -> Result<Response<v1::QueueSortResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            if !shared.info.has(&[Point::QueueSort]) {
                return Err(Status::unimplemented(format!("plugin {} has no Point::QueueSort", shared.name())));
            }
            let plugin = shared.plugin(request.config_hash, Some(&request.profile))?;
            let mut response = v1::QueueSortResponse::default();
            for pod in &request.pods {
                // What fails about a pod, a panic too, leaves the others their keys.
                let key = catch_unwind(AssertUnwindSafe(|| plugin.sort_key(pod, &request.profile)));
                let key = key.map_err(panic_text).and_then(|key| key.map_err(|status| status.message().to_string()));
                let (key, status) = match key.and_then(SortKey::into_message) {
                    Ok(key) => (key, coded(Code::Success, shared.name())),
                    Err(error) => {
                        let failed = shared.failed("QueueSort", &format!("sort_key: {error}"));
                        (v1::SortKey::default(), results::Status::error(failed.message()).to_message(shared.name()))
                    }
                };
                response.keys.push(key);
                response.statuses.push(status);
            }
            if response.statuses.iter().all(|status| status.code() == Code::Success) {
                response.statuses.clear();
            }
            Ok(response)
        };
        self.0.run("QueueSort", work).await.map(Response::new)
    }

    async fn queueing_hint(
        &self,
        request: Request<v1::QueueingHintRequest>,
    ) -> Result<Response<v1::QueueingHintResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let event = request.event.unwrap_or_default();
            let (old, new) = (object("old_json", &request.old_json)?, object("new_json", &request.new_json)?);
            let mut hints = Vec::with_capacity(request.pods.len());
            for pod in &request.pods {
                // A scheduler of the first release does not say the profile.
                let profile = pod.spec.as_ref().map(|spec| spec.scheduler_name.as_str()).filter(|name| !name.is_empty());
                let plugin = shared.plugin(request.config_hash, profile)?;
                let helps = plugin.queueing_hint(pod, &event, old.as_ref(), new.as_ref());
                hints.push((if helps { Hint::Queue } else { Hint::QueueSkip }) as i32);
            }
            Ok(v1::QueueingHintResponse { hints })
        };
        self.0.run("QueueingHint", work).await.map(Response::new)
    }
}
