"""A frontend's answer about a pod that it does not know: there is none, or it cannot tell yet.

Tests: tests/contract/test_serving_access.py, tests/unit/frontend/test_scheduler_status.py.
"""

from trireme.frontend.serving.frontend_state import FrontendState
from trireme_kube.client.informers import informer

_PODS = "pods"
# How many of the caches that are not synced are named; `trireme status` names all.
_NAMED = 3


def text(state: FrontendState, key: str) -> str:
    """The answer about the pod (namespace/name) that no informer knows, with what to do."""
    if not state.synced:
        return f"{key}: it is not known yet whether there is such a pod: {_unsynced_text(state)}"
    namespace, _, name = key.rpartition("/")
    ended = (
        "A scheduler does not see pods that have ended (Succeeded or Failed): "
        f"`kubectl get pod --namespace {namespace or 'default'} {name}` shows those"
    )
    error = next((each.last_error for each in _statistics(state) if each.name == _PODS), "")
    stale = f". Pods cannot be read at the moment, so that a new one is not known: {error}" if error else ""
    return f"{key}: no pod of this name is pending here or on a node{stale}. {ended}"


def _statistics(state: FrontendState) -> list[informer.InformerStatistics]:
    return [each.statistics() for each in state.informers]


def _unsynced_text(state: FrontendState) -> str:
    """Which caches this frontend waits for and why, who leads meanwhile, and when to ask again."""
    unsynced = [each for each in _statistics(state) if not each.synced]
    more = len(unsynced) - _NAMED
    names = ", ".join(each.name for each in unsynced[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    waits = f"the caches of this frontend are not synced (it waits for {names})"
    errors = dict.fromkeys(f"{each.name}: {each.last_error}" for each in unsynced if each.last_error)
    parts = [waits, *list(errors)[:1]]
    again = "Ask again once `trireme status` says that they are synced"
    leader = state.context.leader
    if leader.holder and not leader.leading:
        again += f", or ask {leader.holder}, which holds the lease {leader.lease}"
    return f"{'; '.join(parts)}. {again}"
