"""DefaultBinder: the in-tree plugin that binds a pod by a POST to its `binding` subresource.

It converts between the contract's messages and `PodBinder`. A pod with an unknown outcome gets no result: the contract
has no status for "unknown", because a caller that took it for a failure would place the pod twice. So the call ends
with `BindResultUnknown` after all other results, and the caller calls again.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.plugin_kit.pod_binder import BindTarget
from trireme.plugins.default_binder.spec import SPEC
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery.api_writes import PodName, Uncertain
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


_SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)


def make(context: bind_phase_plugin.BindContext) -> bind_phase_plugin.BindPhasePlugin:
    """Make the plugin DefaultBinder, which binds by the phase's BindingWriter (`context.binder`).

    What is certain is a result for each pod. If some pods may be bound or not, BindResultUnknown is raised after all
    other results, so that the frontend calls again.
    """

    async def bind(
        request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        targets = [
            BindTarget(PodName(item.pod.namespace, item.pod.name, item.pod.uid), item.node_name, item.outcome_unknown)
            for item in request.items
        ]
        for target in targets if klog.enabled(log, 3) else ():
            _log_binding_attempt(target)
        unknown: list[str] = []
        async with aclosing(context.binder.bind(targets, tenure)) as batches:
            async for outcomes in batches:
                results = []
                for index, outcome in outcomes:
                    if isinstance(outcome, Uncertain):
                        unknown.append(f"{targets[index].pod.namespace}/{targets[index].pod.name}: {outcome.message}")
                    else:
                        results.append(bind_pb2.BindResult(index=index, status=_status_message(outcome)))
                if results:
                    yield results
        if unknown:
            raise bind_phase_plugin.BindResultUnknown(
                f"{len(unknown)} pods may be bound or not; the first: {unknown[0]}"
            )

    return bind_phase_plugin.BindPhasePlugin(SPEC.name, bind=bind)


def _status_message(outcome: status.Status) -> status_pb2.Status:
    """The result of a pod: bound, or the error in kube-scheduler's words."""
    if outcome.code is status.Code.SUCCESS:
        return _SUCCESS
    return to_message(
        status.Status(
            outcome.code, SPEC.name, (f'running Bind plugin "{SPEC.name}": {outcome.message}',), outcome.reasons
        )
    )


def _log_binding_attempt(target: BindTarget) -> None:
    """Log "Attempting to bind pod to node" at verbosity 3, as kube-scheduler does before it sends a binding."""
    pod = klog.Ref(f"{target.pod.namespace}/{target.pod.name}")
    text = "Attempting to bind pod to node"
    klog.info(log, 3, text, **klog.named(log, f"Bind.{SPEC.name}"), pod=pod, node=klog.Ref(target.node))
