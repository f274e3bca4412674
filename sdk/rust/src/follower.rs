// Also change: internal/trireme/rpc/follower.py (which names the other languages' files).

//! Follows the snapshot stream, and has calls wait for it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::cluster::Cluster;
use crate::fencing::stale;
use crate::v1;
use crate::v1::snapshot_follower_server::SnapshotFollower;
use crate::v1::sync_request::Message;

/// How long a call waits for its generation.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What is followed: the cluster, its leader, and by which stream.
#[derive(Clone, Default)]
struct Followed {
    cluster: Arc<Cluster>,
    leader: v1::Fence,
    stream: u64,
}

#[derive(Clone)]
pub(crate) struct Follower {
    followed: Arc<watch::Sender<Followed>>,
    instance: String,
    stopping: watch::Receiver<bool>,
}

impl Follower {
    pub(crate) fn new(instance: String, stopping: watch::Receiver<bool>) -> Self {
        Self { followed: Arc::new(watch::Sender::new(Followed::default())), instance, stopping }
    }

    /// The cluster once it is what the cycle needs: of its leader, and of its generation at least.
    pub(crate) async fn wait(&self, cycle: &v1::Cycle) -> Result<Arc<Cluster>, Status> {
        let fence = cycle.fence.clone().unwrap_or_default();
        check_epoch(&self.followed.borrow().leader, &fence)?;
        let mut changes = self.followed.subscribe();
        let reached = changes.wait_for(|now| {
            let same = now.leader.epoch == fence.epoch && now.leader.scheduler_id == fence.scheduler_id;
            now.cluster.synced && same && now.cluster.generation >= cycle.generation
        });
        match tokio::time::timeout(LONGEST_WAIT, reached).await {
            Ok(Ok(now)) => Ok(now.cluster.clone()),
            _ => Err(Status::failed_precondition(format!(
                "cycle.generation: {} is not reached, the cluster is at {}",
                cycle.generation,
                self.followed.borrow().cluster.generation
            ))),
        }
    }

    /// Makes this the stream that is followed.
    fn accept(&self, hello: v1::Hello) -> Result<u64, Status> {
        let fence = hello.fence.unwrap_or_default();
        let mut outcome = Ok(0);
        self.followed.send_modify(|now| {
            outcome = check_epoch(&now.leader, &fence).map(|()| {
                now.stream += 1;
                now.leader = fence;
                Arc::make_mut(&mut now.cluster).synced = false;
                now.stream
            });
        });
        outcome
    }

    /// Applies a delta of the stream; the generation to acknowledge, None before the full sync is complete.
    fn take(&self, stream: u64, delta: v1::Delta) -> Result<Option<u64>, Status> {
        let mut outcome = Ok(None);
        self.followed.send_modify(|now| {
            if now.stream != stream {
                outcome = Err(Status::aborted("another stream has replaced this one"));
                return;
            }
            outcome = Arc::make_mut(&mut now.cluster)
                .apply(delta)
                .map_err(|error| Status::failed_precondition(format!("delta: {error}")))
                .map(|()| now.cluster.synced.then_some(now.cluster.generation));
        });
        outcome
    }
}

/// Epochs are compared among leaders of one scheduler; another scheduler replaces it, because its cluster is another one.
fn check_epoch(leader: &v1::Fence, caller: &v1::Fence) -> Result<(), Status> {
    if caller.scheduler_id == leader.scheduler_id && caller.epoch < leader.epoch {
        return Err(stale(caller.epoch, leader.epoch));
    }
    Ok(())
}

type Acknowledgements = Pin<Box<dyn Stream<Item = Result<v1::SyncResponse, Status>> + Send>>;

#[async_trait]
impl SnapshotFollower for Follower {
    type SyncStream = Acknowledgements;

    async fn sync(&self, request: Request<Streaming<v1::SyncRequest>>) -> Result<Response<Acknowledgements>, Status> {
        let mut messages = request.into_inner();
        let (answers, acknowledged) = tokio::sync::mpsc::channel(16);
        let (follower, mut stopping) = (self.clone(), self.stopping.clone());
        tokio::spawn(async move {
            let followed = tokio::select! {
                ended = follower.follow(&mut messages, &answers) => ended,
                _ = stopping.wait_for(|stop| *stop) => Err(Status::unavailable("the process ends")),
            };
            if let Err(status) = followed {
                let _ = answers.send(Err(status)).await; // the caller may be gone
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(acknowledged))))
    }
}

impl Follower {
    async fn follow(
        &self,
        messages: &mut Streaming<v1::SyncRequest>,
        answers: &tokio::sync::mpsc::Sender<Result<v1::SyncResponse, Status>>,
    ) -> Result<(), Status> {
        let hello = match messages.next().await.transpose()?.and_then(|first| first.message) {
            Some(Message::Hello(hello)) => hello,
            _ => return Err(Status::invalid_argument("message: a stream begins with hello")),
        };
        let stream = self.accept(hello)?;
        while let Some(request) = messages.next().await.transpose()? {
            // A newer frontend may send messages of a kind that is unknown here.
            let Some(Message::Delta(delta)) = request.message else { continue };
            if let Some(applied_generation) = self.take(stream, delta)? {
                let instance = self.instance.clone();
                let answer = v1::SyncResponse { applied_generation, instance, ..Default::default() };
                if answers.send(Ok(answer)).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
