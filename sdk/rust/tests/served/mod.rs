//! A plugin that is served for a test, and what its calls need.
#![allow(dead_code)] // each test file uses a part

use std::time::Duration;

use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use trireme_sdk::{ArgumentErrors, Configuration, Info, Options, Plugin, v1};

/// The plugin's channel; it is served until the second value is dropped.
pub async fn served<P: Plugin>(info: Info, plugin: P) -> (Channel, oneshot::Sender<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (listening, address) = oneshot::channel();
    tokio::spawn(async move {
        let told = |address: &str| listening.send(address.to_string()).unwrap();
        let stop = async move { drop(stopped.await) };
        trireme_sdk::serve(info, plugin, &Options::default(), told, stop).await.unwrap();
    });
    (connect(&address.await.unwrap()).await, stop)
}

/// The same for a plugin with arguments.
pub async fn served_with<P: Plugin>(
    info: Info,
    make: impl Fn(Configuration) -> Result<P, ArgumentErrors> + Send + Sync + 'static,
) -> (Channel, oneshot::Sender<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (listening, address) = oneshot::channel();
    tokio::spawn(async move {
        let told = |address: &str| listening.send(address.to_string()).unwrap();
        let stop = async move { drop(stopped.await) };
        trireme_sdk::serve_with(info, make, &Options::default(), told, stop).await.unwrap();
    });
    (connect(&address.await.unwrap()).await, stop)
}

pub async fn connect(address: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.timeout(Duration::from_secs(20)).connect().await.unwrap()
}

pub fn cycle(state: Vec<u8>) -> Option<v1::Cycle> {
    Some(v1::Cycle { profile: "default-scheduler".into(), generation: 3, state, ..Default::default() })
}

pub fn nodes(names: &[&str]) -> Option<v1::NodeSelection> {
    let nodes = names.iter().map(|name| v1::NodeView { name: name.to_string(), ..Default::default() });
    Some(v1::NodeSelection { nodes: nodes.collect(), ..Default::default() })
}

pub fn identity(name: &str) -> Option<v1::PodIdentity> {
    Some(v1::PodIdentity { namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") })
}

pub fn placements(names: &[&str]) -> Vec<v1::Placement> {
    let made = names.iter().map(|name| v1::Placement { pod: identity(name), node_name: "a".into(), ..Default::default() });
    made.collect()
}

pub fn items(names: &[&str], state: &[u8]) -> Vec<v1::BindItem> {
    let made = names.iter().map(|name| v1::BindItem {
        pod: identity(name),
        node_name: "a".into(),
        state: state.to_vec(),
        ..Default::default()
    });
    made.collect()
}

pub fn code(status: &Option<v1::Status>) -> v1::Code {
    status.as_ref().unwrap().code()
}
