// The story that every client tells, with kube: see run_clients.py.
use std::collections::HashSet;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, LogParams, Patch, PatchParams, PostParams,
};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event};
use kube::Client;
use serde_json::json;

const NAMESPACE: &str = "client-rust";
const GROUP: &str = "rust.clients.example.com";

/// Follows the pods until so many run.
async fn until_running(client: &Client, wanted: usize) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut events = Box::pin(watcher::watcher(pods, watcher::Config::default()));
    let mut running = HashSet::new();
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => {
                let name = pod.metadata.name.context("name")?;
                if pod.status.and_then(|status| status.phase).as_deref() == Some("Running") {
                    running.insert(name);
                }
            }
            Event::Delete(pod) => {
                running.remove(&pod.metadata.name.context("name")?);
            }
            _ => {}
        }
        if running.len() == wanted {
            return running.into_iter().next().context("none is wanted");
        }
    }
    anyhow::bail!("the watch ended")
}

async fn pods(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let labels = json!({"app": "web"});
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example.com/web"}]},
            },
        },
    }))?;
    deployments.create(&PostParams::default(), &deployment).await?;
    until_running(client, 2).await?;
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch_scale("web", &PatchParams::default(), &scale).await?;
    let name = until_running(client, 3).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let log = pods.logs(&name, &LogParams::default()).await?;
    ensure!(log.contains("is simulated"), "the log is {log:?}");
    Ok(())
}

async fn custom_resources(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("things.{GROUP}");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}
            ],
        },
    }))?;
    definitions.create(&PostParams::default(), &definition).await?;
    await_condition(definitions.clone(), &name, conditions::is_crd_established()).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "Thing"));
    let things: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let thing = DynamicObject::new("a", &resource).data(json!({"spec": {"size": 1}}));
    let apply = PatchParams::apply("client-rust");
    things.patch("a", &apply, &Patch::Apply(&thing)).await?;
    let status = json!({"status": {"ready": true}});
    things.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await?;
    let stored = things.get("a").await?;
    ensure!(stored.data == json!({"spec": {"size": 1}, "status": {"ready": true}}), "{:?}", stored.data);
    definitions.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::try_default().await?;
    let nodes: Api<Node> = Api::all(client.clone());
    ensure!(nodes.list(&Default::default()).await?.items.len() == 3);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    let created = namespaces.create(&PostParams::default(), &namespace).await?;
    let story = async {
        pods(&client).await?;
        custom_resources(&client).await?;
        namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
        let uid = created.metadata.uid.context("uid")?;
        await_condition(namespaces.clone(), NAMESPACE, conditions::is_deleted(&uid)).await?;
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(120), story).await?
}
