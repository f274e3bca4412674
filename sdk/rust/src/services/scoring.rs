// Also change: internal/trireme/sdk/watched_cluster.py (which names the other languages' files).
// Also change: internal/trireme/sdk/scoring.py (which names the other languages' files).
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic::{Request, Response, Status, async_trait};

use super::Server;
use super::filtering::{node_of, nodes};
use crate::info::Normalization;
use crate::plugin::Plugin;
use crate::results::{self, coded};
use crate::shared::Shared;
use crate::v1::score_plugin_server::ScorePlugin;
use crate::v1::{self, Code};

/// The largest raw score that can be multiplied by 100.
const MAX_RAW: i64 = i64::MAX / 100;

/// Fails where a score is outside its range.
fn check(step: &str, scores: &[i64], normalization: Normalization) -> Result<(), results::Status> {
    let highest = match normalization {
        Normalization::Custom => return Ok(()),
        Normalization::None | Normalization::Unspecified => 100,
        _ => MAX_RAW,
    };
    match scores.iter().position(|score| !(0..=highest).contains(score)) {
        None => Ok(()),
        Some(at) => Err(results::Status::error(format!(
            "{step} returned {} for node {at} of the call: must be 0 to {highest}",
            scores[at]
        ))),
    }
}

/// The status and the scores of an answer: none where one is an error, or outside its range.
fn answer<P: Plugin>(scores: Vec<Result<i64, results::Status>>, shared: &Shared<P>) -> (Option<v1::Status>, Vec<i64>) {
    let checked = scores
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .and_then(|scores| check("score", &scores, shared.info.message.normalization()).map(|()| scores));
    match checked {
        Err(status) => (Some(as_error("score", status).to_message(shared.name())), Vec::new()),
        Ok(scores) => (Some(coded(Code::Success, shared.name())), scores),
    }
}

/// The error of a score with copies that got the cluster; it is logged once.
fn use_of_cluster<P: Send + Sync + 'static>(shared: &Shared<P>) -> results::Status {
    let text = "ScoreCopies: score got Call::cluster, which does not have the copies of the pod, so pods are placed one at a \
                time: set Info::score_copies to true if the score counts no pods of the cluster, or to false if it does";
    shared.cluster_use_logged.call_once(|| tracing::warn!(plugin = shared.name(), "{text}"));
    results::Status::error(text)
}

#[async_trait]
impl<P: Plugin> ScorePlugin for Server<P> {
    async fn pre_score(&self, request: Request<v1::PreScoreRequest>) -> Result<Response<v1::PreScoreResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let selection = request.nodes.unwrap_or_default();
            let (status, state) = match plugin.pre_score(&call, &nodes(&call, &selection)).await {
                Err(status) => (as_error("pre_score", status).to_message(shared.name()), Vec::new()),
                Ok(ready) => (coded(if ready.skip { Code::Skip } else { Code::Success }, shared.name()), ready.state),
            };
            Ok(v1::PreScoreResponse { status: Some(status), state })
        };
        self.0.run("PreScore", work).await.map(Response::new)
    }

    async fn score(&self, request: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let selection = request.nodes.unwrap_or_default();
            let nodes = nodes(&call, &selection);
            let mut scores = Vec::with_capacity(nodes.len());
            for (at, node) in nodes.iter().enumerate() {
                super::end_if_cancelled(at).await;
                scores.push(plugin.score(&call, node));
            }
            let (status, scores) = answer(scores, &shared);
            Ok(v1::ScoreResponse { status, scores })
        };
        self.0.run("Score", work).await.map(Response::new)
    }

    async fn score_copies(
        &self,
        request: Request<v1::ScoreCopiesRequest>,
    ) -> Result<Response<v1::ScoreCopiesResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        if request.copies == 0 {
            return Err(Status::invalid_argument("copies: 0, must be at least 1"));
        }
        let work = async move {
            let class = request.cycle.as_ref().map_or(0, |cycle| cycle.pod_class);
            let (plugin, mut call) = shared.begin(request.cycle, 1).await?;
            let (selection, cluster) = (request.nodes.unwrap_or_default(), call.cluster.clone());
            let copies = cluster.as_ref().map_or_else(Vec::new, |cluster| cluster.copies(class, request.copies));
            let used = Arc::new(AtomicBool::new(false));
            call.cluster_use = shared.info.watches_cluster().then(|| used.clone());
            let mut scores = Vec::new();
            'nodes: for at in 0..call.cluster.as_ref().map_or(selection.nodes.len(), |_| selection.slots.len()) {
                for added in 1..=request.copies as usize {
                    super::end_if_cancelled(scores.len()).await;
                    if cluster.is_none() {
                        call.added_pods = vec![call.pod.clone(); added];
                    }
                    let mut node = node_of(cluster.as_deref(), &selection, at);
                    node.pods.extend(copies.iter().take(added));
                    scores.push(plugin.score(&call, &node));
                    if used.load(Ordering::Relaxed) {
                        scores.push(Err(use_of_cluster(&shared)));
                        break 'nodes;
                    }
                }
            }
            let (status, scores) = answer(scores, &shared);
            Ok(v1::ScoreCopiesResponse { status, scores })
        };
        self.0.run("ScoreCopies", work).await.map(Response::new)
    }

    async fn normalize_score(
        &self,
        request: Request<v1::NormalizeScoreRequest>,
    ) -> Result<Response<v1::NormalizeScoreResponse>, Status> {
        let (shared, request) = (self.0.clone(), request.into_inner());
        let work = async move {
            let (plugin, call) = shared.begin(request.cycle, 1).await?;
            let (selection, mut scores) = (request.nodes.unwrap_or_default(), request.scores);
            let normalized = plugin
                .normalize_scores(&call, &nodes(&call, &selection), &mut scores)
                .and_then(|()| check("normalize_scores", &scores, Normalization::None));
            Ok(match normalized {
                Err(status) => v1::NormalizeScoreResponse {
                    status: Some(as_error("normalize_scores", status).to_message(shared.name())),
                    scores: Vec::new(),
                },
                Ok(()) => v1::NormalizeScoreResponse { status: Some(coded(Code::Success, shared.name())), scores },
            })
        };
        self.0.run("NormalizeScore", work).await.map(Response::new)
    }
}

/// Scoring has no refusals.
fn as_error(step: &str, status: results::Status) -> results::Status {
    if status.is_refusal() {
        return results::Status::error(format!("{step} returned a refusal, which this step must not: {}", status.message()));
    }
    status
}
