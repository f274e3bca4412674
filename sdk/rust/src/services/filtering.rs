// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).
use std::collections::HashMap;

use tonic::{Request, Response, Status, async_trait};

use super::Server;
use crate::call::{Call, Node, PlacedPod, Placement};
use crate::cluster::Cluster;
use crate::plugin::Plugin;
use crate::results::{self, Verdict, coded};
use crate::v1::filter_plugin_server::FilterPlugin;
use crate::v1::{self, Code};

/// The most copies that a capacity can say.
const UNLIMITED: i32 = i32::MAX;

/// Results about nodes under construction: each distinct status once, and one index and capacity a node.
struct Columns<'a> {
    plugin: &'a str,
    message: v1::NodeColumns,
    known: HashMap<results::Status, u32>,
}

impl<'a> Columns<'a> {
    fn new(plugin: &'a str, generation: u64, nodes: usize) -> Self {
        let message = v1::NodeColumns {
            generation,
            status_index: Vec::with_capacity(nodes),
            capacity: Vec::with_capacity(nodes),
            ..Default::default()
        };
        Self { plugin, message, known: HashMap::new() }
    }

    fn add(&mut self, verdict: Verdict) {
        let (index, capacity) = match verdict {
            Verdict::Pass => (0, UNLIMITED),
            Verdict::Room(0) => (self.index(results::Status::error("filter returned Room(0): must be above 0")), 0),
            Verdict::Room(copies) => (0, i32::try_from(copies).unwrap_or(UNLIMITED)),
            Verdict::Refused(status) => (self.index(status), 0),
        };
        self.message.status_index.push(index);
        self.message.capacity.push(capacity);
        self.message.size += 1;
    }

    fn index(&mut self, status: results::Status) -> u32 {
        if let Some(&index) = self.known.get(&status) {
            return index;
        }
        self.message.statuses.push(status.to_message(self.plugin));
        let index = self.message.statuses.len() as u32;
        self.known.insert(status, index);
        index
    }
}

/// The nodes of a call, by slot for a plugin that follows the cluster.
pub(super) fn nodes<'a>(call: &'a Call, selection: &'a v1::NodeSelection) -> Vec<Node<'a>> {
    match &call.cluster {
        Some(cluster) => selection.slots.iter().map(|&slot| cluster.node(slot)).collect(),
        None => selection.nodes.iter().map(view).collect(),
    }
}

/// One node of a call, by its place in the request.
pub(super) fn node_of<'a>(cluster: Option<&'a Cluster>, selection: &'a v1::NodeSelection, at: usize) -> Node<'a> {
    match cluster {
        Some(cluster) => cluster.node(selection.slots[at]),
        None => view(&selection.nodes[at]),
    }
}

fn view(view: &v1::NodeView) -> Node<'_> {
    Node { name: &view.name, message: view.node.as_ref(), json: &view.json, pods: Vec::new() }
}

fn placement<'a>(call: &'a Call, of: &'a v1::Placement, nobody: &'a v1::PodIdentity) -> Placement<'a> {
    let followed = call.cluster.as_ref().and_then(|cluster| cluster.named(&of.node_name));
    let node = followed.unwrap_or(Node { name: &of.node_name, message: None, json: &[], pods: Vec::new() });
    Placement { pod: of.pod.as_ref().unwrap_or(nobody), node }
}

/// Filter about a node as if some pods were gone and others there.
fn dry_run<P: Plugin>(plugin: &P, call: &Call, run: &v1::DryRun) -> Verdict {
    let mut call = call.clone();
    let Some(cluster) = call.cluster.clone() else {
        (call.removed_pods, call.added_pods) = (run.removed_pods.clone(), run.added_pods.clone());
        let empty = v1::NodeView::default();
        return plugin.filter(&call, &view(run.node.as_ref().unwrap_or(&empty)));
    };
    let (removed, added) = cluster.dry_run(run);
    let mut node = cluster.node(run.slot);
    node.pods.retain(|pod| !removed.iter().any(|gone| gone.uid == pod.uid));
    node.pods.extend(&added);
    let messages = |pods: &[PlacedPod]| pods.iter().map(|pod| (*pod.pod).clone()).collect();
    (call.removed_pods, call.added_pods) = (messages(&removed), messages(&added));
    plugin.filter(&call, &node)
}

#[async_trait]
impl<P: Plugin> FilterPlugin for Server<P> {
    async fn pre_filter(&self, request: Request<v1::PreFilterRequest>) -> Result<Response<v1::PreFilterResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            Ok(match plugin.pre_filter(&call).await {
                Err(status) => v1::PreFilterResponse { status: Some(status.to_message(shared.name())), ..Default::default() },
                Ok(result) => v1::PreFilterResponse {
                    status: Some(coded(if result.skip { Code::Skip } else { Code::Success }, shared.name())),
                    narrowed: result.nodes.is_some(),
                    node_names: result.nodes.unwrap_or_default(),
                    state: result.state,
                },
            })
        };
        self.0.run("PreFilter", work).await.map(Response::new)
    }

    async fn filter(&self, request: Request<v1::FilterRequest>) -> Result<Response<v1::FilterResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, request.count).await?;
            let selection = request.nodes.unwrap_or_default();
            let nodes = nodes(&call, &selection);
            let mut columns = Columns::new(shared.name(), call.generation, nodes.len());
            for (at, node) in nodes.iter().enumerate() {
                super::end_if_cancelled(at).await;
                columns.add(plugin.filter(&call, node));
            }
            Ok(v1::FilterResponse { columns: Some(columns.message) })
        };
        self.0.run("Filter", work).await.map(Response::new)
    }

    async fn filter_dry_run(
        &self,
        request: Request<v1::FilterDryRunRequest>,
    ) -> Result<Response<v1::FilterDryRunResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let mut columns = Columns::new(shared.name(), call.generation, request.runs.len());
            for (at, run) in request.runs.iter().enumerate() {
                super::end_if_cancelled(at).await;
                columns.add(dry_run(&*plugin, &call, run));
            }
            Ok(v1::FilterDryRunResponse { columns: Some(columns.message) })
        };
        self.0.run("FilterDryRun", work).await.map(Response::new)
    }

    async fn post_filter(
        &self,
        request: Request<v1::PostFilterRequest>,
    ) -> Result<Response<v1::PostFilterResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            Ok(match plugin.post_filter(&call, &request.columns.unwrap_or_default()).await {
                Err(status) => v1::PostFilterResponse { status: Some(status.to_message(shared.name())), ..Default::default() },
                Ok(mut response) => {
                    response.status.get_or_insert_with(|| coded(Code::Success, shared.name()));
                    response
                }
            })
        };
        self.0.run("PostFilter", work).await.map(Response::new)
    }

    async fn reserve(&self, request: Request<v1::ReserveRequest>) -> Result<Response<v1::ReserveResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let (mut reservations, nobody) = (Vec::new(), v1::PodIdentity::default());
            for of in &request.placements {
                // Ends here if the caller has given up: its Unreserve may have come, and nothing more may be taken.
                tokio::task::yield_now().await;
                let (status, state) = match plugin.reserve(&call, &placement(&call, of, &nobody)).await {
                    Err(status) => (status.to_message(shared.name()), Vec::new()),
                    Ok(ready) => (coded(Code::Success, shared.name()), ready.state),
                };
                reservations.push(v1::Reservation { status: Some(status), state, ..Default::default() });
            }
            Ok(v1::ReserveResponse { reservations, ..Default::default() })
        };
        self.0.run("Reserve", work).await.map(Response::new)
    }

    async fn unreserve(&self, request: Request<v1::UnreserveRequest>) -> Result<Response<v1::UnreserveResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let nobody = v1::PodIdentity::default();
            for of in &request.placements {
                plugin.unreserve(&call, &placement(&call, of, &nobody)).await;
            }
            Ok(v1::UnreserveResponse {})
        };
        self.0.run("Unreserve", work).await.map(Response::new)
    }
}
