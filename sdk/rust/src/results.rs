// Also change: internal/trireme/scheduling/waiting_pods.py (how long a pod waits at most).
// Also change: internal/trireme/sdk/state.py (which names the other languages' files).
// Also change: internal/trireme/sdk/results.py (which names the other languages' files).
// Also change: internal/trireme/sdk/result_checks.py (which names the other languages' files).

//! What a plugin's methods return.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Serialize;

use crate::v1::{self, Code};

/// A refusal, or an error. Its message is counted over the nodes and is part of the pod's event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    code: Code,
    message: String,
    reasons: Vec<(String, BTreeMap<String, String>)>,
}

impl Status {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reasons: Vec::new() }
    }

    /// Refused now; evicting pods may help.
    pub fn unschedulable(message: impl Into<String>) -> Self {
        Self::new(Code::Unschedulable, message)
    }

    /// Refused, and evicting pods would not help.
    pub fn unresolvable(message: impl Into<String>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, message)
    }

    /// Refused until something outside the scheduler has happened, whose event skips the back-off.
    pub fn pending(message: impl Into<String>) -> Self {
        Self::new(Code::Pending, message)
    }

    /// The plugin could not decide: the pod is tried again later.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Code::Error, message)
    }

    /// The same refusal as data, for `trireme explain`: a name in lower camel case, and what it is about.
    pub fn reason<const N: usize>(mut self, code: &str, parameters: [(&str, String); N]) -> Self {
        let parameters = parameters.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        self.reasons.push((code.into(), parameters));
        self
    }

    pub(crate) fn is_unschedulable(&self) -> bool {
        self.code == Code::Unschedulable
    }

    /// Whether it is a refusal, not an error.
    pub fn is_refusal(&self) -> bool {
        self.code != Code::Error
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn to_message(&self, plugin: &str) -> v1::Status {
        let reasons = self.reasons.iter().map(|(code, parameters)| v1::Reason {
            code: code.clone(),
            parameters: parameters.clone().into_iter().collect::<HashMap<_, _>>(),
        });
        v1::Status {
            code: self.code as i32,
            plugin: plugin.into(),
            messages: vec![self.message.clone()],
            reasons: reasons.collect(),
        }
    }
}

pub(crate) fn coded(code: Code, plugin: &str) -> v1::Status {
    let plugin = if matches!(code, Code::Success | Code::Skip) { String::new() } else { plugin.into() };
    v1::Status { code: code as i32, plugin, ..Default::default() }
}

/// A pod's position in the queue: numbers that are compared from the first on, and the least is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey {
    level: Vec<i64>,
    rest: Vec<i64>,
}

impl SortKey {
    /// The most numbers in each part.
    pub const MAX_NUMBERS: usize = 16;

    /// What is compared first: 1 to 16 numbers. Pods of one class with the same level may be scheduled in one batch, and
    /// classes of one level take turns; so levels that all differ keep every batch to one pod.
    pub fn new(level: impl Into<Vec<i64>>) -> Self {
        Self { level: level.into(), rest: Vec::new() }
    }

    /// The scheduler's own order: the highest priority first.
    pub fn by_priority(pod: &v1::Pod) -> Self {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        Self::new([-i64::from(priority)])
    }

    /// The order of the pods of one class and level: at most 16 numbers. What is equal goes by age.
    pub fn rest(mut self, rest: impl Into<Vec<i64>>) -> Self {
        self.rest = rest.into();
        self
    }

    /// The message; an error says what came and what is expected.
    pub(crate) fn into_message(self) -> Result<v1::SortKey, String> {
        let most = Self::MAX_NUMBERS;
        match (self.level.len(), self.rest.len()) {
            (level, _) if level == 0 || level > most => {
                Err(format!("returned a level of {level} numbers: must be 1 to {most}"))
            }
            (_, rest) if rest > most => Err(format!("returned a rest of {rest} numbers: must be at most {most}")),
            _ => Ok(v1::SortKey { level: self.level, rest: self.rest }),
        }
    }
}

impl From<i64> for SortKey {
    fn from(level: i64) -> Self {
        Self::new([level])
    }
}

/// Filter's result for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes, for any number of copies.
    Pass,
    /// It passes, and takes so many copies; 0 is an error.
    Room(u32),
    /// It is refused.
    Refused(Status),
}

impl From<Status> for Verdict {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// PreFilter's result for a pod that passes.
#[derive(Clone, Debug, Default)]
pub struct PreFilter {
    pub(crate) skip: bool,
    pub(crate) nodes: Option<Vec<String>>,
    pub(crate) state: Vec<u8>,
}

impl PreFilter {
    /// The plugin has nothing to do for the pod: Filter is left out.
    pub fn skip() -> Self {
        Self { skip: true, ..Default::default() }
    }

    /// The pod may run on these nodes at most.
    pub fn nodes(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.nodes = Some(names.into_iter().collect());
        self
    }

    /// State for Filter, perhaps in another replica: `Call::state` reads it.
    pub fn state(mut self, state: &impl Serialize) -> Result<Self, Status> {
        self.state = encode(state)?;
        Ok(self)
    }
}

pub(crate) fn encode(state: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(state).map_err(|error| Status::error(format!("state cannot be written: {error}")))
}

/// PreScore's and Reserve's result: success, with state for the steps that follow.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    pub(crate) skip: bool,
    pub(crate) state: Vec<u8>,
}

impl Ready {
    /// Of PreScore: Score is left out.
    pub fn skip() -> Self {
        Self { skip: true, state: Vec::new() }
    }

    /// State for Score, or for PreBind.
    pub fn with_state(state: &impl Serialize) -> Result<Self, Status> {
        Ok(Self { skip: false, state: encode(state)? })
    }
}

/// Permit's result for a pod that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Bind it.
    Allow,
    /// It waits until `Handle::allow`.
    Wait(PermitWait),
}

/// How long Permit has a pod wait at most, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitWait {
    pub(crate) longest: Duration,
    pub(crate) message: String,
}

impl PermitWait {
    /// So long at most; then the pod is refused. The scheduler takes what is longer than 15 minutes for 15 minutes.
    pub fn new(longest: Duration) -> Self {
        Self { longest, message: String::new() }
    }

    /// Why it waits: `trireme status` shows it.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

impl From<PermitWait> for Permit {
    fn from(wait: PermitWait) -> Self {
        Self::Wait(wait)
    }
}

/// PreBind's result for a pod that is not refused.
#[derive(Clone, Debug)]
pub enum PreBind {
    /// All is done.
    Done,
    /// There was nothing to do.
    Skip,
    /// Call again when one of its objects has changed.
    Wait(PreBindWait),
}

/// What PreBind waits for. It is called again when one of the objects or the pod has changed, and every ten seconds.
#[derive(Clone, Debug)]
pub struct PreBindWait {
    pub(crate) objects: Vec<v1::ObjectKey>,
    pub(crate) longest: Duration,
    pub(crate) message: String,
    pub(crate) state: Option<Vec<u8>>,
}

impl PreBindWait {
    /// For one of these objects to change: the kind is a field of `v1::ClusterObject`, such as `persistent_volume_claim`, or
    /// `pod`. The longest time of a pod's first wait holds for all its waits in PreBind; then it fails.
    pub fn new(objects: impl Into<Vec<v1::ObjectKey>>, longest: Duration) -> Self {
        Self { objects: objects.into(), longest, message: String::new(), state: None }
    }

    /// Why it waits: `trireme status` shows it, and it is part of the pod's event when the time is over.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// State for the next PreBind, perhaps in another replica: `Item::state` reads it. Without, it gets what this call got.
    pub fn state(mut self, state: &impl Serialize) -> Result<Self, Status> {
        self.state = Some(encode(state)?);
        Ok(self)
    }
}

impl From<PreBindWait> for PreBind {
    fn from(wait: PreBindWait) -> Self {
        Self::Wait(wait)
    }
}

/// Bind's result for a pod that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The API server has the binding.
    Bound,
    /// Left to the next plugin.
    Skip,
}

/// PlacementFeasible's result for a group of pods that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feasible {
    /// It fits as it is; later calls answer so too.
    Fits,
    /// It fits if more of it does: what is missing. If no more does, it is unschedulable.
    MoreMembers(String),
}
