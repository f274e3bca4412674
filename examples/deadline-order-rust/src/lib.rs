//! Orders the queue by class of service, and within a class by deadline: what must be done first is tried first.
//!
//! A label of the pod names its class, the annotation `example.com/deadline` says until when it must be done. A pod's key
//! depends on the pod and the arguments alone, so it is called for once.

use prost_types::Timestamp;
use serde::Deserialize;
use trireme_sdk::{ArgumentErrors, Configuration, Info, Plugin, Point, SortKey, Status, v1};

/// When the pod must be done, as RFC 3339. The name is no argument: the scheduler sends the fields that `Info` names, and
/// all annotations would make nearly each pod a class of its own.
pub const DEADLINE: &str = "example.com/deadline";

/// From this priority on (system-cluster-critical) pods go before all classes: they keep the cluster alive.
const SYSTEM_CRITICAL: i32 = 2_000_000_000;
const BEFORE_ALL_CLASSES: i64 = -1;
const MAX_ROUND_TO_SECONDS: i64 = 24 * 60 * 60;

/// The args of a profile's pluginConfig.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Arguments {
    /// The label of pods that names their class.
    pub class_label: String,
    /// The classes, the first one first.
    pub classes: Vec<String>,
    /// The class of pods without the label, or with a class that is not in the list.
    pub default_class: String,
    /// Deadlines are rounded up to a multiple of so many seconds; equal ones are scheduled in one batch.
    pub round_to_seconds: i64,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            class_label: "example.com/service-class".into(),
            classes: ["interactive", "standard", "batch"].map(String::from).into(),
            default_class: "standard".into(),
            round_to_seconds: 60,
        }
    }
}

/// The plugin.
pub struct DeadlineOrder {
    arguments: Arguments,
    default_rank: i64,
}

impl DeadlineOrder {
    /// The plugin's description.
    pub fn info() -> Info {
        Info::new("DeadlineOrder", [Point::QueueSort])
            .version(env!("CARGO_PKG_VERSION"))
            .pod_fields(["metadata.labels", "metadata.annotations['example.com/deadline']", "spec.priority"])
            .idempotent()
    }

    /// The plugin for a profile's arguments.
    pub fn new(configuration: Configuration) -> Result<Self, ArgumentErrors> {
        Self::with(configuration.args()?)
    }

    /// The plugin with these arguments.
    pub fn with(arguments: Arguments) -> Result<Self, ArgumentErrors> {
        let mut errors = ArgumentErrors::default();
        if arguments.class_label.is_empty() {
            errors = errors.and("classLabel", "must not be empty");
        }
        for (at, class) in arguments.classes.iter().enumerate() {
            if arguments.classes[..at].contains(class) {
                errors = errors.and(&format!("classes[{at}]"), format!("{class} is in the list twice"));
            }
        }
        if !(1..=MAX_ROUND_TO_SECONDS).contains(&arguments.round_to_seconds) {
            errors = errors.and("roundToSeconds", format!("must be 1 to {MAX_ROUND_TO_SECONDS}"));
        }
        let Some(default_rank) = rank(&arguments.classes, &arguments.default_class) else {
            return Err(errors.and("defaultClass", "must be one of classes"));
        };
        errors.into_result()?;
        Ok(Self { arguments, default_rank })
    }

    /// The position of the pod's class among the classes.
    fn class_rank(&self, metadata: &v1::ObjectMeta) -> i64 {
        let Some(class) = metadata.labels.get(&self.arguments.class_label) else { return self.default_rank };
        rank(&self.arguments.classes, class).unwrap_or_else(|| {
            let (pod, label) = (&metadata.name, &self.arguments.class_label);
            tracing::warn!(namespace = metadata.namespace, pod, label, class, "unknown class: the pod has the default");
            self.default_rank
        })
    }

    /// The pod's deadline in seconds since 1970, rounded; the last of all without one, or where nobody can read it.
    fn deadline(&self, metadata: &v1::ObjectMeta) -> i64 {
        let Some(text) = metadata.annotations.get(DEADLINE) else { return i64::MAX };
        let Ok(time) = text.parse::<Timestamp>() else {
            let pod = &metadata.name;
            tracing::warn!(namespace = metadata.namespace, pod, text, "the deadline is no time of RFC 3339: it has none");
            return i64::MAX;
        };
        let (seconds, step) = (time.seconds.saturating_add(i64::from(time.nanos > 0)), self.arguments.round_to_seconds);
        seconds.saturating_add((step - seconds.rem_euclid(step)) % step)
    }
}

fn rank(classes: &[String], class: &str) -> Option<i64> {
    classes.iter().position(|each| each == class).map(|at| at as i64)
}

impl Plugin for DeadlineOrder {
    /// Class, then deadline, then priority; what is equal goes by age.
    fn sort_key(&self, pod: &v1::Pod, _profile: &str) -> Result<SortKey, Status> {
        let none = v1::ObjectMeta::default();
        let metadata = pod.metadata.as_ref().unwrap_or(&none);
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let class = if priority >= SYSTEM_CRITICAL { BEFORE_ALL_CLASSES } else { self.class_rank(metadata) };
        Ok(SortKey::new([class, self.deadline(metadata), -i64::from(priority)]))
    }
}
