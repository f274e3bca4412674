"""The official Python client against the embedded cluster, with its generated models."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kubernetes.aio import client, config, watch

from tests.e2e.embedded_process import eventually
from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.kubelet.kubelets import KubeletPace

DEADLINE = 20.0


def pod(name: str) -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "x"}),
        spec=client.V1PodSpec(
            containers=[
                client.V1Container(
                    name="c", image="i", resources=client.V1ResourceRequirements(requests={"cpu": "100m"})
                )
            ]
        ),
    )


async def test_the_official_client(tmp_path: Path) -> None:
    """Configuration from the kubeconfig, create, list, watch, bind, patch, delete: unchanged client code works."""
    async with (
        asyncio.timeout(DEADLINE),
        EmbeddedCluster(3, pace=KubeletPace(start=0, stop=0)) as cluster,
    ):
        path = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        configuration = client.Configuration()
        await config.load_kube_config(config_file=str(path), client_configuration=configuration)
        async with client.ApiClient(configuration) as api:
            core = client.CoreV1Api(api)
            nodes = await core.list_node(label_selector="kubernetes.io/hostname=node-1")
            assert [one.metadata.name for one in nodes.items] == ["node-1"]
            created = await core.create_namespaced_pod("default", pod("p"))
            assert created.status.phase == "Pending"
            target = client.V1ObjectReference(kind="Node", name="node-1")
            binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p", uid=created.metadata.uid), target=target)
            # The reply is a Status, whatever the client's model says.
            await core.create_namespaced_pod_binding_without_preload_content("p", "default", binding)
            async with watch.Watch() as events:
                stream = events.stream(
                    core.list_namespaced_pod, "default", resource_version=created.metadata.resource_version
                )
                async for event in stream:
                    if event["object"].status.phase == "Running":
                        assert event["object"].spec.node_name == "node-1"
                        break
            patched = await core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"more": "1"}}})
            assert patched.metadata.labels["more"] == "1"
            await core.delete_namespaced_pod("p", "default")

            async def gone() -> bool:
                return not (await core.list_namespaced_pod("default")).items

            await eventually(gone)


async def test_workloads_and_leases_by_the_official_client() -> None:
    """Typed clients of other groups; conflicts arrive as exceptions with Kubernetes' status."""
    async with (
        asyncio.timeout(DEADLINE),
        EmbeddedCluster(1) as cluster,
        client.ApiClient(client.Configuration(host=cluster.url)) as api,
    ):
        template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "x"}), spec=pod("t").spec)
        selector = client.V1LabelSelector(match_labels={"app": "x"})
        body = client.V1Deployment(
            metadata=client.V1ObjectMeta(name="web"),
            spec=client.V1DeploymentSpec(replicas=3, selector=selector, template=template),
        )
        apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
        await apps.create_namespaced_deployment("default", body)

        async def count() -> int:
            return len((await core.list_namespaced_pod("default", label_selector="app=x")).items)

        async def three() -> bool:
            return await count() == 3

        await eventually(three)
        scale = await apps.read_namespaced_deployment_scale("web", "default")
        scale.spec.replicas = 1
        await apps.replace_namespaced_deployment_scale("web", "default", scale)

        async def one() -> bool:
            return await count() == 1

        await eventually(one)
        leases = client.CoordinationV1Api(api)
        lease = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="a"))
        first = await leases.create_namespaced_lease("default", lease)
        first.spec.holder_identity = "b"
        await leases.replace_namespaced_lease("l", "default", first)
        with pytest.raises(client.ApiException) as refusal:
            await leases.replace_namespaced_lease("l", "default", first)
        assert refusal.value.status == 409
        assert "the object has been modified" in str(refusal.value.body)
