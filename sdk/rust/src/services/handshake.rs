// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
use tonic::{Request, Response, Status, async_trait};

use super::Server;
use crate::plugin::Plugin;
use crate::v1;
use crate::v1::plugin_service_server::PluginService;

#[async_trait]
impl<P: Plugin> PluginService for Server<P> {
    async fn get_plugin_info(
        &self,
        request: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        let known = request.into_inner().features;
        let required = &self.0.info.message.required_features;
        let missing: Vec<&str> = required.iter().filter(|each| !known.contains(each)).map(String::as_str).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let text = format!("required_features: the caller does not know {missing}; update the scheduler");
            return Err(Status::failed_precondition(text));
        }
        let mut info = self.0.info.describe();
        if !known.iter().any(|feature| feature == "placement-feasible") {
            // The caller does not know this extension point.
            info.extension_points.retain(|point| *point != v1::ExtensionPoint::PlacementFeasible as i32);
        }
        let (plugins, instance) = (vec![info], self.0.instance.clone());
        Ok(Response::new(v1::GetPluginInfoResponse { plugins, instance }))
    }

    async fn configure(&self, request: Request<v1::ConfigureRequest>) -> Result<Response<v1::ConfigureResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        self.0.run("Configure", async move { shared.configure(&request) }).await.map(Response::new)
    }

    async fn get_plugin_statistics(
        &self,
        _: Request<v1::GetPluginStatisticsRequest>,
    ) -> Result<Response<v1::GetPluginStatisticsResponse>, Status> {
        Err(Status::unimplemented("only phases call plugins"))
    }
}
