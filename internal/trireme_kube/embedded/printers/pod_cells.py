"""The three cells of a pod's row that take more than a lookup: Ready, Status and Restarts.

Source: printPod in k8s.io/kubernetes, pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import Any

from trireme_kube.embedded.api.resources import Object


def _statuses(pod: Object, part: str = "containerStatuses") -> list[Any]:
    return (pod.get("status") or {}).get(part) or []


def _conditions(pod: Object) -> list[Any]:
    return (pod.get("status") or {}).get("conditions") or []


def ready_cell(pod: Object) -> str:
    """Ready containers of all."""
    ready = sum(bool(one.get("ready")) and "running" in (one.get("state") or {}) for one in _statuses(pod))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def restarts_cell(pod: Object) -> str:
    """How often containers were restarted."""
    return str(sum(int(one.get("restartCount", 0)) for one in _statuses(pod)))


def _terminated_reason(terminated: Object) -> str:
    """Return why a container ended: its reason, else its signal or exit code."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_container_status(pod: Object) -> str:
    """The status of an init container that has not succeeded yet, or empty."""
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
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


def _container_status(pod: Object, reason: str) -> str:
    """Return what the STATUS column says by a pod's containers, else `reason`; the first container's failure counts."""
    running, failure = False, ""
    for status in reversed(_statuses(pod)):
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
        if running and any(one["type"] == "Ready" and one["status"] == "True" for one in _conditions(pod)):
            return "Running"
        return failure or ("NotReady" if running else reason)
    return reason


def status_cell(pod: Object) -> str:
    """One word that summarises the pod's status."""
    status = pod.get("status") or {}
    phase = str(status.get("phase", ""))
    reason = str(status.get("reason") or phase)
    if any(one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in _conditions(pod)):
        reason = "SchedulingGated"
    reason = _init_container_status(pod) or _container_status(pod, reason)
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason
