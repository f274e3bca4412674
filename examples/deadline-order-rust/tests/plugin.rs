//! The plugin's order of pods, as the SDK asks for it.

use deadline_order::{Arguments, DEADLINE, DeadlineOrder};
use trireme_sdk::{ArgumentErrors, Plugin, SortKey, v1};

const CLASS: &str = "example.com/service-class";

/// A pod of a class, with a deadline and a priority; empty texts are left out.
fn pod(class: &str, deadline: &str, priority: i32) -> v1::Pod {
    let entry = |key: &str, value: &str| (!value.is_empty()).then(|| (key.to_string(), value.to_string()));
    let metadata = v1::ObjectMeta {
        labels: entry(CLASS, class).into_iter().collect(),
        annotations: entry(DEADLINE, deadline).into_iter().collect(),
        ..Default::default()
    };
    let spec = v1::PodSpec { priority: Some(priority), ..Default::default() };
    v1::Pod { metadata: Some(metadata), spec: Some(spec), ..Default::default() }
}

fn plugin(arguments: Arguments) -> DeadlineOrder {
    DeadlineOrder::with(arguments).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn key(pod: &v1::Pod) -> SortKey {
    plugin(Arguments::default()).sort_key(pod, "p").unwrap()
}

/// A pod that is tried after one that can wait misses its deadline.
#[test]
fn pods_go_by_class_then_deadline_then_priority() {
    let in_order = [
        pod("batch", "", 2_000_000_000),
        pod("interactive", "2026-11-27T18:00:00Z", 0),
        pod("interactive", "2026-11-28T00:30:00+02:00", 0),
        pod("interactive", "", 1000),
        pod("standard", "2026-11-27T18:00:00Z", 7),
        pod("standard", "2026-11-27T18:00:00Z", 0),
        pod("standard", "", 0),
        pod("batch", "2026-11-27T18:00:00Z", 1000),
    ];
    for pair in in_order.windows(2) {
        assert!(key(&pair[0]) < key(&pair[1]), "{pair:?}");
    }
}

/// A mistake in one pod must not keep others out of the queue, nor put the pod before those that have a deadline.
#[test]
fn an_unknown_class_is_the_default_and_an_unreadable_deadline_is_none() {
    assert_eq!(key(&pod("urgent", "", 0)), key(&pod("standard", "", 0)));
    assert_eq!(key(&pod("", "", 0)), key(&pod("standard", "", 0)));
    assert_eq!(key(&pod("batch", "tomorrow", 0)), key(&pod("batch", "", 0)));
    assert_eq!(key(&v1::Pod::default()), key(&pod("", "", 0)));
}

/// Deadlines that differ by seconds keep pods of one kind out of one batch.
#[test]
fn deadlines_are_rounded_up() {
    let of = |deadline: &str| key(&pod("", deadline, 0));
    assert_eq!(of("2026-11-27T18:00:01Z"), of("2026-11-27T18:01:00Z"));
    assert_eq!(of("2026-11-27T18:00:00.5Z"), of("2026-11-27T18:01:00Z"));
    assert!(of("2026-11-27T18:00:00Z") < of("2026-11-27T18:00:01Z"));
    assert_eq!(of("1969-12-31T23:59:30Z"), of("1970-01-01T00:00:00Z"));
    let exact = plugin(Arguments { round_to_seconds: 1, ..Default::default() });
    let of = |deadline: &str| exact.sort_key(&pod("", deadline, 0), "p").unwrap();
    assert!(of("2026-11-27T18:00:01Z") < of("2026-11-27T18:00:02Z"));
}

/// The classes of a team are its own.
#[test]
fn classes_and_their_label_are_arguments() {
    let arguments = Arguments {
        class_label: "tier".into(),
        classes: ["gold", "silver"].map(String::from).into(),
        default_class: "silver".into(),
        ..Default::default()
    };
    let gold = |label: &str| {
        let mut pod = pod("", "", 0);
        pod.metadata.as_mut().unwrap().labels.insert(label.into(), "gold".into());
        plugin(arguments.clone()).sort_key(&pod, "p").unwrap()
    };
    assert!(gold("tier") < gold(CLASS));
}

/// Arguments that are read as something else order the queue otherwise than the administrator meant.
#[test]
fn wrong_arguments_are_named() {
    let classes = ["a", "a"].map(String::from).into();
    let wrong = Arguments { class_label: String::new(), classes, default_class: "b".into(), round_to_seconds: 0 };
    let errors = ArgumentErrors::of("classLabel", "must not be empty")
        .and("classes[1]", "a is in the list twice")
        .and("roundToSeconds", "must be 1 to 86400")
        .and("defaultClass", "must be one of classes");
    assert_eq!(DeadlineOrder::with(wrong).err(), Some(errors));
}
