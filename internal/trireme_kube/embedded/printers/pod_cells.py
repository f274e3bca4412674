"""The three cells of a pod's row that take more than a lookup: Ready, Status and Restarts.

Source: printPod in k8s.io/kubernetes, pkg/printers/internalversion/printers.go.

Tests: tests/unit/embedded/printers/test_tables.py.
"""

from typing import Any

from trireme_kube.embedded.api.resources import Object


def _container_statuses(pod: Object, part: str = "containerStatuses") -> list[Any]:
    """The pod's statuses of its containers, or of other parts such as `initContainerStatuses`."""
    return (pod.get("status") or {}).get(part) or []


def _pod_conditions(pod: Object) -> list[Any]:
    return (pod.get("status") or {}).get("conditions") or []


def ready_cell(pod: Object) -> str:
    """The READY cell of a pod: how many of its containers are ready."""
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in _container_statuses(pod))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def restarts_cell(pod: Object) -> str:
    """The RESTARTS cell of a pod: how often its containers were restarted, all together."""
    return str(sum(int(one.get("restartCount", 0)) for one in _container_statuses(pod)))


def _terminated_reason(terminated: Object) -> str:
    """Return why a container ended: its reason, else its signal or exit code."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _status_by_init_containers(pod: Object) -> str:
    """The status of an init container that has not succeeded yet, or empty."""
    for index, status in enumerate(_container_statuses(pod, "initContainerStatuses")):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and not terminated.get("exitCode"):
            continue
        if terminated:
            return f"Init:{_terminated_reason(terminated)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(pod['spec'].get('initContainers') or ())}"
    return ""


def _status_by_containers(pod: Object, reason: str) -> str:
    """Return what the STATUS column says by a pod's containers, else `reason`; the first container's failure counts."""
    running, failure = False, ""
    for status in reversed(_container_statuses(pod)):
        state = status.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _terminated_reason(terminated)
            failure = reason if terminated.get("exitCode") else failure
        elif status.get("ready") and "running" in state:
            running = True
    if reason == "Completed":
        if running and any(one["type"] == "Ready" and one["status"] == "True" for one in _pod_conditions(pod)):
            return "Running"
        return failure or ("NotReady" if running else reason)
    return reason


def status_cell(pod: Object) -> str:
    """One word that summarises the pod's status."""
    status = pod.get("status") or {}
    phase = str(status.get("phase", ""))
    reason = str(status.get("reason") or phase)
    if any(one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in _pod_conditions(pod)):
        reason = "SchedulingGated"
    reason = _status_by_init_containers(pod) or _status_by_containers(pod, reason)
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason
