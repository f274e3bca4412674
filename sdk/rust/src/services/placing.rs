// Also change: internal/trireme/sdk/placing.py (which names the other languages' files).
use tonic::{Request, Response, Status, async_trait};

use super::Server;
use crate::call::{PlacementTrial, tried_pods};
use crate::info::Point;
use crate::plugin::Plugin;
use crate::results::{self, Feasible, coded};
use crate::v1::pod_group_plugin_server::PodGroupPlugin;
use crate::v1::{self, Code};

/// The message of one step's result, and whether the trial goes on.
fn status_of(result: Result<Feasible, results::Status>, plugin: &str) -> (v1::Status, bool) {
    match result {
        Ok(Feasible::Fits) => (coded(Code::Success, plugin), true),
        Ok(Feasible::MoreMembers(message)) if message.is_empty() => {
            (results::Status::error("Feasible::MoreMembers must say what is missing").to_message(plugin), false)
        }
        Ok(Feasible::MoreMembers(message)) => {
            (v1::Status { messages: vec![message], ..coded(Code::Wait, plugin) }, true)
        }
        Err(status) if status.is_refusal() && !status.is_unschedulable() => {
            let text = "placement_feasible refuses by Status::unschedulable alone";
            (results::Status::error(format!("{text}: {}", status.message())).to_message(plugin), false)
        }
        Err(status) => (status.to_message(plugin), false),
    }
}

#[async_trait]
impl<P: Plugin> PodGroupPlugin for Server<P> {
    async fn placement_feasible(
        &self,
        request: Request<v1::PlacementFeasibleRequest>,
    ) -> Result<Response<v1::PlacementFeasibleResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            if !shared.info.has(&[Point::PlacementFeasible]) {
                return Err(Status::unimplemented(format!("plugin {} has no Point::PlacementFeasible", shared.name())));
            }
            let (plugin, call) = shared.begin(request.cycle.clone(), 1).await?;
            let mut statuses = Vec::with_capacity(request.steps.len());
            let tried = tried_pods(&request);
            // Up to the first that ends the trial.
            for step in &request.steps {
                let result = plugin.placement_feasible(&call, &PlacementTrial::new(&request, &tried, step)).await;
                let (status, goes_on) = status_of(result, shared.name());
                statuses.push(status);
                if !goes_on {
                    break;
                }
            }
            Ok(v1::PlacementFeasibleResponse { statuses })
        };
        self.0.run("PlacementFeasible", work).await.map(Response::new)
    }
}
