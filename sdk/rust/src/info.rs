// Also change: internal/trireme/sdk/values.py (which names the other languages' files).
// Also change: internal/trireme/sdk/description.py (which names the other languages' files).

//! A plugin's description.

use crate::v1;

pub use v1::ExtensionPoint as Point;
pub use v1::{Dependency, NodeData, Normalization};

/// A kind of change that may help a pod that the plugin refused, in the framework's words.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) resource: String,
    pub(crate) actions: Vec<String>,
    pub(crate) hint: bool,
}

impl Event {
    /// For example `Event::new("Node", ["Add", "UpdateNodeLabel"])`.
    pub fn new<const N: usize>(resource: &str, actions: [&str; N]) -> Self {
        Self { resource: resource.into(), actions: actions.map(String::from).into(), hint: false }
    }

    /// `Plugin::queueing_hint` is called for such events.
    pub fn with_hint(mut self) -> Self {
        self.hint = true;
        self
    }
}

/// A plugin's name, needs and limits.
#[derive(Clone, Debug)]
pub struct Info {
    pub(crate) message: v1::PluginInfo,
    score_copies: Option<bool>,
}

impl Info {
    /// A plugin of this name, which profiles use, at these extension points.
    pub fn new<const N: usize>(name: &str, points: [Point; N]) -> Self {
        let extension_points = points.map(|point| point as i32).into();
        let message = v1::PluginInfo { name: name.into(), extension_points, ..Default::default() };
        Self { message, score_copies: None }
    }

    /// The scheduler caches answers for as long as the version stays.
    pub fn version(mut self, version: &str) -> Self {
        self.message.version = version.into();
        self
    }

    /// What answers depend on, and so how often the plugin is called. Default: everything.
    pub fn depends_on(mut self, dependency: Dependency) -> Self {
        self.message.depends_on = dependency as i32;
        self
    }

    /// In which form it gets nodes. Default: names.
    pub fn node_data(mut self, data: NodeData) -> Self {
        self.message.node_data = data as i32;
        self
    }

    /// The fields of the pod that it reads, e.g. `spec.nodeSelector`; only they are sent.
    pub fn pod_fields<const N: usize>(mut self, fields: [&str; N]) -> Self {
        self.message.pod_fields = fields.map(String::from).into();
        self
    }

    /// How its scores are brought into 0 to 100. Default: they are.
    pub fn normalization(mut self, normalization: Normalization) -> Self {
        self.message.normalization = normalization as i32;
        self
    }

    /// At most so many calls at once; further calls wait. 0: as many as come.
    pub fn max_concurrent_calls(mut self, calls: u32) -> Self {
        self.message.max_concurrent_calls = calls;
        self
    }

    /// A call may be made twice, also at the same time and at two replicas, without any effect beyond the two answers, which
    /// are the same. Then the scheduler may hedge calls that change nothing.
    pub fn idempotent(mut self) -> Self {
        self.message.idempotent = true;
        self
    }

    /// Whether score also answers for nodes with copies of the pod on them, so that pods of a class are placed in batches
    /// although the score depends on NodePods. With Snapshot the copies are among `Node::pods`, and nowhere else: score does
    /// unless this says otherwise, and where it gets `Call::cluster`, which does not have them, pods are placed one at a time;
    /// true says that its answer is right all the same. With other forms of nodes the copies are `Call::added_pods`, which
    /// score has to count.
    pub fn score_copies(mut self, scores: bool) -> Self {
        self.score_copies = Some(scores);
        self
    }

    /// Additions to the contract (docs/versioning.md) that the plugin cannot work without. A scheduler that lacks one
    /// rejects it and says which; an older one, which does not know this field, is refused at the handshake.
    pub fn required_features<const N: usize>(mut self, features: [&str; N]) -> Self {
        self.message.required_features = features.map(String::from).into();
        self
    }

    /// Which events may help a pod that it refused. Without any every event does.
    pub fn events<const N: usize>(mut self, events: [Event; N]) -> Self {
        self.message.events_to_register = events
            .map(|event| v1::ClusterEvent { resource: event.resource, actions: event.actions, hint: event.hint })
            .into();
        self
    }

    pub(crate) fn has(&self, points: &[Point]) -> bool {
        points.iter().any(|point| self.message.extension_points.contains(&(*point as i32)))
    }

    pub(crate) fn has_hints(&self) -> bool {
        self.message.events_to_register.iter().any(|event| event.hint)
    }

    pub(crate) fn follows(&self) -> bool {
        self.message.node_data() == NodeData::Snapshot
    }

    /// Whether a score of nodes with copies must not get the cluster, which does not have them: its author has not said that
    /// the score is right all the same.
    pub(crate) fn watches_cluster(&self) -> bool {
        self.follows() && self.score_copies != Some(true)
    }

    /// The description of the handshake.
    pub(crate) fn describe(&self) -> v1::PluginInfo {
        let mut message = self.message.clone();
        let counts_pods = self.message.depends_on() == Dependency::NodePods;
        let served = self.follows() && counts_pods && self.message.normalization() != Normalization::Custom;
        message.score_copies = self.has(&[Point::Score]) && self.score_copies.unwrap_or(served);
        message
    }

    /// What is wrong with it, for the plugin's author.
    pub(crate) fn check(&self) -> Result<(), String> {
        let info = &self.message;
        if info.name.is_empty() {
            return Err("info: the name is empty".into());
        }
        if info.extension_points.is_empty() {
            return Err(format!("plugin {}: has no extension point", info.name));
        }
        if self.has(&[Point::NormalizeScore]) != (info.normalization() == Normalization::Custom) {
            return Err(format!("plugin {}: Point::NormalizeScore and Normalization::Custom go together", info.name));
        }
        Ok(())
    }
}
