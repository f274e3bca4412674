"""The story that every client tells, with the official client and a kopf operator: see run_clients.py."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kopf
import kubernetes
from kubernetes import client, watch

NAMESPACE, GROUP = "client-python", "python.clients.example.com"


def until(what: str, check: Callable[[], bool]) -> None:
    """Waits a minute at most."""
    end = time.monotonic() + 60
    while not check():
        if time.monotonic() > end:
            raise AssertionError(f"not within a minute: {what}")
        time.sleep(0.05)


def until_running(core: client.CoreV1Api, wanted: int) -> str:
    """Follows the pods until so many run; answers the name of one."""
    running: set[str] = set()
    for event in watch.Watch().stream(core.list_namespaced_pod, NAMESPACE, timeout_seconds=60):
        pod = event["object"]
        present = event["type"] != "DELETED" and pod.status.phase == "Running"
        (running.add if present else running.discard)(pod.metadata.name)
        if len(running) == wanted:
            return running.pop()
    raise AssertionError(f"not within a minute: {wanted} pods run")


def pods(core: client.CoreV1Api) -> None:
    """A Deployment, its pods by a watch, their number, a log."""
    apps = client.AppsV1Api()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/web"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "web"}, "spec": spec})
    until_running(core, 2)
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    name = until_running(core, 3)
    assert "is simulated" in core.read_namespaced_pod_log(name, NAMESPACE)


@kopf.on.create(GROUP, "v1", "things")
def on_create(spec: Any, patch: Any, **_: Any) -> None:
    """The operator: reports every Thing as ready."""
    patch.status["ready"] = spec["size"] == 1


@contextlib.contextmanager
def operator() -> Iterator[None]:
    """kopf, in a thread of its own."""
    ready, stop = threading.Event(), threading.Event()

    def run() -> None:
        operating = kopf.operator(ready_flag=ready, stop_flag=stop, namespaces=[NAMESPACE], standalone=True)
        asyncio.run(operating)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        thread.join()


def custom_resources() -> None:
    """A definition, and an object that the operator deals with."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    definitions = client.ApiextensionsV1Api()
    definitions.create_custom_resource_definition({"metadata": {"name": f"things.{GROUP}"}, "spec": spec})

    def established() -> bool:
        status = definitions.read_custom_resource_definition(f"things.{GROUP}").status
        return any(one.type == "Established" and one.status == "True" for one in status.conditions or ())

    until("the definition is established", established)
    things = client.CustomObjectsApi()
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}
    where = (GROUP, "v1", NAMESPACE, "things")
    with operator():
        things.create_namespaced_custom_object(*where, thing)
        until(
            "the operator has written the status",
            lambda: things.get_namespaced_custom_object(*where, "a").get("status", {}).get("ready") is True,
        )
    definitions.delete_custom_resource_definition(f"things.{GROUP}")


def main() -> None:
    """Tells the story."""
    kubernetes.config.load_kube_config()
    core = client.CoreV1Api()
    assert len(core.list_node().items) == 3
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    pods(core)
    custom_resources()
    core.delete_namespace(NAMESPACE)
    until("the namespace is gone", lambda: all(one.metadata.name != NAMESPACE for one in core.list_namespace().items))


if __name__ == "__main__":
    main()
