"""Reads what is visible of a cluster's kube-scheduler: its static pod's mirror in kube-system, and its configuration.

A static pod's file lies on the control plane's node; the kubelet shows it as a pod with the same spec. A configuration
file on that node is not visible; one in a ConfigMap is. Managed clusters show neither.

Tests: tests/unit/shadow/test_migration_findings.py.
"""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError

_NAMESPACE = "kube-system"
_SELECTOR = "component=kube-scheduler"
_DEADLINE_SECONDS = 10.0
_PROGRAM = "kube-scheduler"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VisibleScheduler:
    """One kube-scheduler. `arguments` are its flags; `configuration` its file, None: it has none, or it is not visible.

    `configuration_place` says where the file is: empty if there is none. `place` names the pod, or the file that was
    given by hand. `problem` says why its flags, or else its file, are not visible; empty: they are, or the file is on
    its node.
    """

    place: str
    image: str = ""
    arguments: tuple[str, ...] = ()
    configuration: bytes | None = None
    configuration_place: str = ""
    problem: str = ""


async def read(api: client.ApiClient) -> tuple[list[VisibleScheduler], str]:
    """The kube-schedulers of the cluster that are visible, and why none is, if none is.

    Raises: ApiUnreachable: the API server does not answer. ApiError: it answers with an error that is not a refusal.
    """
    path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
    try:
        response = await api.read(path, {"labelSelector": _SELECTOR}, deadline=_DEADLINE_SECONDS)
    except ApiError as error:
        if error.status in (401, 403):
            return [], f"pods in {_NAMESPACE} may not be read: {error.message}"
        raise
    pods = response.json().get("items") or []
    if not pods:
        return [], f"no pod in {_NAMESPACE} has the label {_SELECTOR}, as in managed clusters"
    return [await _read_scheduler(api, pod) for pod in pods], ""


async def _read_scheduler(api: client.ApiClient, pod: Json) -> VisibleScheduler:
    """Read one pod's container, flags and configuration."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    namespace = metadata.get("namespace") or ""
    place = f"pod {namespace}/{metadata.get('name')}"
    container, words = _scheduler_container(spec.get("containers") or [{}])
    image = str(container.get("image") or "")
    if words is None:
        problem = "no container runs kube-scheduler by a word of its own (a shell?), so its flags are not visible"
        return VisibleScheduler(place, image, problem=problem)
    arguments = flags_of_command(words)
    file, found, problem = value_of(arguments, "config"), None, ""
    if file:
        found, problem = await _read_config_map_file(api, namespace, spec, container, file)
    return VisibleScheduler(place, image, arguments, found, file, problem)


def _scheduler_container(containers: Sequence[Json]) -> tuple[Json, Sequence[str] | None]:
    """The container that runs kube-scheduler, and the words after the program; None: no command says so.

    Others may run beside it, and a wrapper may start it: `/go-runner --log-file=x /usr/local/bin/kube-scheduler --v=2`.
    """
    for container in containers:
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for at, word in enumerate(words):
            # A word without a folder after a flag without a value may be that value: `--leader-elect-resource-name x`.
            is_value = at > 0 and words[at - 1].startswith("-") and "=" not in words[at - 1] and "/" not in word
            if posixpath.basename(word) == _PROGRAM and not word.startswith("-") and not is_value:
                return container, words[at + 1 :]
    images = [str(container.get("image") or "") for container in containers]
    names = [posixpath.basename(image).partition("@")[0].partition(":")[0] for image in images]
    at = names.index(_PROGRAM) if _PROGRAM in names else 0
    found = containers[at]
    if names[at] == _PROGRAM and not found.get("command"):
        # The image runs it by itself.
        return found, [str(word) for word in found.get("args") or ()]
    return found, None


async def _read_config_map_file(
    api: client.ApiClient, namespace: str, spec: Json, container: Json, file: str
) -> tuple[bytes | None, str]:
    """Read a file that is mounted from a ConfigMap; None: it is not, or, with the reason, cannot be read."""
    for mount in container.get("volumeMounts") or ():
        folder = str(mount.get("mountPath") or "").rstrip("/")
        source = _config_map_of_volume(spec, mount.get("name"))
        inside = posixpath.relpath(file, folder) if file.startswith(f"{folder}/") or file == folder else ""
        if not source or not inside:
            continue
        path = str(mount.get("subPath") or inside)
        key = {each.get("path"): each.get("key") for each in source.get("items") or ()}.get(path, path)
        name = f"ConfigMap {namespace}/{source.get('name')}"
        try:
            url = f"/api/v1/namespaces/{namespace}/configmaps/{source.get('name')}"
            response = await api.read(url, deadline=_DEADLINE_SECONDS)
        except ApiError as error:
            return None, f"it is in {name}, which cannot be read: {error.message}"
        text = (response.json().get("data") or {}).get(key)
        if text is None:
            return None, f"it is in {name}, which has no key {key}"
        return str(text).encode("utf-8", "replace"), ""
    return None, ""


def _config_map_of_volume(spec: Json, name: str | None) -> Json | None:
    """The ConfigMap of the pod's volume of this name; None: it is none, or another kind of volume."""
    for volume in spec.get("volumes") or ():
        if volume.get("name") == name:
            found: Json | None = volume.get("configMap")
            return found
    return None


def flags_of_command(command: Sequence[str]) -> tuple[str, ...]:
    """The flags of a command line as `--name=value`, without the program; a flag's value may be the next word."""
    out: list[str] = []
    for word in command:
        if word.startswith("-"):
            out.append(word)
        elif out and "=" not in out[-1]:
            out[-1] = f"{out[-1]}={word}"
    return tuple(out)


def value_of(arguments: Sequence[str], name: str) -> str:
    """The last value of a flag; empty: it is not given."""
    values = [each.partition("=")[2] for each in arguments if each.partition("=")[0].lstrip("-") == name]
    return values[-1] if values else ""
