"""DefaultBinder: the in-tree plugin that binds a pod by a POST to its `binding` subresource.

Between the contract's messages and the binder. A pod whose fate stayed open gets no result: the contract has no status
for "nobody knows", because whoever read it as a failure would place the pod twice. So the call ends with `FateUnknown`
after all other results, and the caller asks again.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from trireme.framework import status
from trireme.plugin_kit import binding_cycle
from trireme.plugin_kit.pod_binder import Bound, Failed, Open, Target
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery.api_writes import PodName
from trireme_kube.componentbase import klog

log = logging.getLogger(__name__)

NAME = "DefaultBinder"

_SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)


def make(context: binding_cycle.BindContext) -> binding_cycle.BindingCyclePlugin:
    """The plugin, on the phase's binder."""

    async def bind(
        request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        targets = [
            Target(PodName(item.pod.namespace, item.pod.name, item.pod.uid), item.node_name, item.outcome_unknown)
            for item in request.items
        ]
        for target in targets if klog.enabled(log, 3) else ():
            _log_attempt(target)
        unknown: list[str] = []
        async with aclosing(context.binder.bind(targets, tenure)) as batches:
            async for outcomes in batches:
                results = []
                for index, outcome in outcomes:
                    match outcome:
                        case Bound():
                            results.append(bind_pb2.BindResult(index=index, status=_SUCCESS))
                        case Failed(message, reason):
                            words = f'running Bind plugin "{NAME}": {message}'
                            failed = status.Status(status.Code.ERROR, NAME, (words,), (reason,))
                            results.append(bind_pb2.BindResult(index=index, status=to_message(failed)))
                        case Open(message):
                            unknown.append(f"{targets[index].pod.namespace}/{targets[index].pod.name}: {message}")
                if results:
                    yield results
        if unknown:
            raise binding_cycle.FateUnknown(f"{len(unknown)} pods may be bound or not; the first: {unknown[0]}")

    return binding_cycle.BindingCyclePlugin(NAME, bind=bind)


def _log_attempt(target: Target) -> None:
    pod = klog.Ref(f"{target.pod.namespace}/{target.pod.name}")
    text = "Attempting to bind pod to node"
    klog.info(log, 3, text, **klog.named(log, f"Bind.{NAME}"), pod=pod, node=klog.Ref(target.node))
