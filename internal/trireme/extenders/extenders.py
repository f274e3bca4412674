"""HTTP extenders: external programs that take part in filtering, scoring, preempting and binding some pods.

The frontend calls them after the plugins, in the order of the configuration with the ignorable ones last: each filter
extender gets the nodes that pass all before it; prioritize calls run concurrently. The results are merged into filter's
columns and added to score's scores, so that placing, preemption and events work as usual. Pods that an extender manages
are scheduled one by one, since each response is about one pod; other pods cost nothing extra. Deadlines and errors are
per extender; failures of an ignorable one have no effect.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes, extendersBinding),
pkg/scheduler/framework/preemption (callExtenders).
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

import numpy as np

from trireme.cache import class_registry, cluster_cache, extender_objects
from trireme.config import scheduler_configuration
from trireme.extenders import extender_wire
from trireme.framework import status
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer
from trireme_kube.apimachinery import golang

log = logging.getLogger(__name__)

# The plugin name of extenders' refusals; any event may help such a pod.
NAME = "Extender"

# Extenders score up to 10, plugins up to 100.
_SCALE = 10

# Far more than the sum of all plugins' scores; with such gaps between all nodes a total still fits a score.
_GAP = 1 << 26
_MOST = 1 << 40

ExtenderError = extender_wire.ExtenderError

# Narrows preemption's candidates to those that the extenders leave, perhaps with other victims.
Trim = Callable[
    [Sequence[filter_phase_pb2.PreemptionCandidate]], Awaitable[Sequence[filter_phase_pb2.PreemptionCandidate]]
]


class Client(Protocol):
    """Calls one extender.

    Implementers: trireme.extenders.extender_client.ExtenderClient, tests.helpers.frontend_world_services.FakeExtender,
    tests.simulation.simulated_extender.Client.
    """

    async def send(self, verb: str, body: bytes) -> Any:
        """Post to the verb; return the JSON value of the response. Raises: ExtenderError."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Extender:
    """An extender's configuration, its client, and the resources that a pod must request for it (none: all pods)."""

    config: scheduler_configuration.Extender
    client: Client
    managed: frozenset[str]

    def is_interested_in(self, pod: core_pb2.Pod) -> bool:
        """Whether it manages all pods, or a resource that one of the pod's containers requests."""
        if not self.managed:
            return True
        return any(
            name in self.managed
            for containers in (pod.spec.containers, pod.spec.init_containers)
            for container in containers
            for amounts in (container.resources.requests, container.resources.limits)
            for name in amounts
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _ExtendersVerdict:
    """The names of the nodes that pass, and the status of each node that an extender reported as failed."""

    names: Sequence[str]
    failed: Mapping[str, tuple[status.Code, str]]


class Extenders:
    """Calls the configured HTTP extenders, those that are not ignorable first, for the pods they are interested in."""

    def __init__(
        self,
        configured: Iterable[tuple[scheduler_configuration.Extender, Client]],
        registry: class_registry.ClassRegistry,
        cache: cluster_cache.ClusterCache,
        objects: extender_objects.ObjectSource,
    ) -> None:
        built = [
            _Extender(config, client, frozenset(resource.name for resource in config.managed_resources))
            for config, client in configured
        ]
        self._extenders = sorted(built, key=lambda extender: extender.config.ignorable)
        self._registry = registry
        self._cache = cache
        self._objects = objects

    def schedules_one_by_one(self, class_id: int) -> bool:
        """Whether an extender filters or scores the class's pods, so that they are scheduled one by one."""
        return any(_filters_or_scores(extender) for extender in self._interested_extenders(class_id))

    async def filter_and_prioritize(
        self, uid: str, class_id: int, filtered: FilterAnswer, nominated_slot: int
    ) -> tuple[FilterAnswer, Sequence[int]]:
        """Apply filter and prioritize extenders to filter's answer for the pod; return it with extra scores by slot.

        The pod's nominated node is tried first, alone, and taken if it passes. With fewer than two nodes left nothing
        is scored. If no extender is interested, the pod is gone or no node passes, the answer stays. Raises:
        ExtenderError.
        """
        interested = [extender for extender in self._interested_extenders(class_id) if _filters_or_scores(extender)]
        if not interested:
            return filtered, ()
        pod = self._objects.pod(uid)
        columns = filtered.columns
        slots = np.flatnonzero((columns.index == 0) & (columns.capacity > 0)).tolist()
        slot_of = {name: slot for slot in slots if (name := self._cache.node_at(slot, columns.generation)) is not None}
        if pod is None or not slot_of:
            return filtered, ()
        nominated = next((name for name, slot in slot_of.items() if slot == nominated_slot), None)
        if nominated is not None:
            try:
                if (await self._filter_by_extenders(interested, pod, [nominated])).names:
                    return filtered, ()
            except ExtenderError as error:
                log.error("Evaluation failed on nominated node: node=%s err=%s", nominated, error)
        result = await self._filter_by_extenders(interested, pod, list(slot_of))
        narrowed = self._with_extenders_refusals(filtered, slot_of, result)
        if len(result.names) < 2:
            return narrowed, ()
        return narrowed, await self._scores_by_extenders(interested, pod, result.names, slot_of, columns.index.shape[0])

    def candidate_trimmer(self, uid: str, class_id: int) -> Trim | None:
        """Return a function that applies extenders to preemption's candidates; None if no extender does that."""
        preempting = [extender for extender in self._interested_extenders(class_id) if extender.config.preempt_verb]
        if not preempting:
            return None

        async def trim_by_extenders(
            candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
        ) -> Sequence[filter_phase_pb2.PreemptionCandidate]:
            return await self._trim_candidates(preempting, uid, candidates)

        return trim_by_extenders

    def has_binder_for(self, class_id: int) -> bool:
        """Whether an extender binds the class's pods."""
        return any(extender.config.bind_verb for extender in self._interested_extenders(class_id))

    async def bind(self, class_id: int, item: bind_pb2.BindItem) -> status.Status | None:
        """Bind the pod by the first extender that binds such pods; None: there is none, use the Bind plugins.

        An ignorable extender that fails is passed over; of another one the error is the status.
        """
        body = extender_wire.binding_body(item.pod.namespace, item.pod.name, item.pod.uid, item.node_name)
        for extender in self._interested_extenders(class_id):
            if not extender.config.bind_verb:
                continue
            try:
                extender_wire.check_binding_result(await extender.client.send(extender.config.bind_verb, body))
            except ExtenderError as error:
                if not extender.config.ignorable:
                    return status.error("", str(error), reasons=(status.Reason("extenderFailed"),))
                _log_skipped_extender(extender, error)
                continue
            return status.SUCCESS
        return None

    def _interested_extenders(self, class_id: int) -> list[_Extender]:
        pod = self._registry[class_id].pod
        return [extender for extender in self._extenders if extender.is_interested_in(pod)]

    # Filter

    async def _filter_by_extenders(
        self, interested: Sequence[_Extender], pod: bytes, names: Sequence[str]
    ) -> _ExtendersVerdict:
        """Have the extenders filter the nodes, each those that passed before.

        An ignorable one that fails refuses nothing.
        """
        failed: dict[str, tuple[status.Code, str]] = {}
        for extender in interested:
            if not names:
                break
            if not extender.config.filter_verb:
                continue
            try:
                result = extender_wire.decode_filter_result(
                    await extender.client.send(extender.config.filter_verb, self._nodes_body(extender, pod, names)),
                    extender.config.node_cache_capable,
                )
                _check_names_requested(extender, result.names, names)
            except ExtenderError as error:
                if not extender.config.ignorable:
                    raise
                _log_skipped_extender(extender, error)
                continue
            for name, text in result.failed.items():
                failed[name] = (status.Code.UNSCHEDULABLE, text)
            for name, text in result.unresolvable.items():
                failed[name] = (status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
            names = list(dict.fromkeys(result.names))
        return _ExtendersVerdict(names, failed)

    def _nodes_body(self, extender: _Extender, pod: bytes, names: Sequence[str]) -> bytes:
        """The body about these nodes: names for an extender with a cache of its own, else whole nodes."""
        if extender.config.node_cache_capable:
            return extender_wire.nodes_body(pod, names, None)
        nodes = (self._objects.node(name) for name in names)
        return extender_wire.nodes_body(pod, (), [node for node in nodes if node is not None])

    def _with_extenders_refusals(
        self, filtered: FilterAnswer, slot_of: Mapping[str, int], result: _ExtendersVerdict
    ) -> FilterAnswer:
        """Return filter's answer with the extenders' refusals, for this one pod and not for its class.

        Nodes that an extender leaves out without a reason are unresolvable.
        """
        columns = filtered.columns
        index, capacity = columns.index.copy(), columns.capacity.copy()
        statuses = list(columns.statuses)
        numbers = {entry: number for number, entry in enumerate(statuses, 1)}

        def refuse_slot(slot: int, refusal: status.Status) -> None:
            """Set why the node at the slot refuses the pod."""
            if refusal not in numbers:
                statuses.append(refusal)
                numbers[refusal] = len(statuses)
            index[slot], capacity[slot] = numbers[refusal], 0

        reasons = (status.Reason("extenderRefused"),)
        silently = status.unresolvable(NAME, reasons=reasons)
        for name in slot_of.keys() - set(result.names):
            refuse_slot(slot_of[name], silently)
        for name, (code, text) in result.failed.items():
            slot = self._cache.slot_of(name)
            # A node that is reported both as failed and as passing passes.
            if 0 <= slot < index.shape[0] and index[slot]:
                plugin = statuses[index[slot] - 1].plugin
                refuse_slot(slot, status.Status(code, plugin, (text,), reasons))
        laid_over = node_columns.NodeColumns.complete(columns.generation, tuple(statuses), index, capacity)
        return dataclasses.replace(filtered, columns=laid_over, update=None)

    # Prioritize

    async def _scores_by_extenders(
        self,
        interested: Sequence[_Extender],
        pod: bytes,
        names: Sequence[str],
        slot_of: Mapping[str, int],
        size: int,
    ) -> Sequence[int]:
        """What the extenders add to each node's total, by slot, of `size` slots; empty if none of them scores."""
        prioritizing = [extender for extender in interested if extender.config.prioritize_verb]
        if not prioritizing:
            return ()
        answers = await asyncio.gather(
            *(self._prioritize_by_extender(extender, pod, names) for extender in prioritizing)
        )
        totals = dict.fromkeys(names, 0)
        for extender, answer in zip(prioritizing, answers, strict=True):
            for name, score in answer:
                if name in totals:
                    totals[name] = _wrapped_to_int64(totals[name] + score * extender.config.weight * _SCALE)
        ranks = _ranks_from_zero(totals.values())
        out = [0] * size
        for name, total in totals.items():
            out[slot_of[name]] = ranks[total]
        return out

    async def _prioritize_by_extender(
        self, extender: _Extender, pod: bytes, names: Sequence[str]
    ) -> list[tuple[str, int]]:
        """One extender's scores by node; none if it fails."""
        try:
            body = self._nodes_body(extender, pod, names)
            return extender_wire.decode_priorities(await extender.client.send(extender.config.prioritize_verb, body))
        except ExtenderError as error:
            # A failed extender gives no scores; the others decide.
            log.info("extender %s gives no scores: %s", extender.config.url_prefix, error)
            return []

    # Preempt

    async def _trim_candidates(
        self, preempting: Sequence[_Extender], uid: str, candidates: Sequence[filter_phase_pb2.PreemptionCandidate]
    ) -> Sequence[filter_phase_pb2.PreemptionCandidate]:
        """Let the extenders narrow the preemption candidates, one after the other; they may also add victims.

        A candidate may come without victims, where only what extenders manage is short; one of them has to add some. An
        ignorable one that fails changes nothing. Raises: ExtenderError, also if the pod is gone.
        """
        pod = self._objects.pod(uid)
        if pod is None:
            raise ExtenderError("the pod is gone")
        identities = {victim.uid: victim for each in candidates for victim in each.victims}
        victims = {
            each.node_name: extender_wire.Victims(tuple(victim.uid for victim in each.victims), each.violations)
            for each in candidates
        }
        for extender in preempting:
            if not victims:
                break
            without = {node for node, node_victims in victims.items() if not node_victims.uids}
            try:
                victims = await self._trim_victims_by_extender(extender, pod, victims)
            except ExtenderError as error:
                if not extender.config.ignorable:
                    raise
                _log_skipped_extender(extender, error)
                continue
            _drop_nodes_without_victims(victims, without, extender)
            # Looked up now: an added victim may be deleted before the next extender responds.
            unknown = [uid for node_victims in victims.values() for uid in node_victims.uids if uid not in identities]
            identities |= {uid: self._identity_of_placed_pod(uid) for uid in unknown}
        return [
            filter_phase_pb2.PreemptionCandidate(
                node_name=node,
                victims=[identities[victim] for victim in node_victims.uids],
                violations=node_victims.violations,
            )
            for node, node_victims in victims.items()
            if node_victims.uids
        ]

    async def _trim_victims_by_extender(
        self, extender: _Extender, pod: bytes, victims: Mapping[str, extender_wire.Victims]
    ) -> dict[str, extender_wire.Victims]:
        """The nodes that the extender leaves as candidates, each with its victims; none if it cannot be told about any.

        Raises: ExtenderError, also if the answer names an unknown node, or a pod that is not on its node.
        """
        body = self._preemption_body(extender, pod, victims)
        if body is None:
            return {}
        answer = extender_wire.decode_preemption_result(await extender.client.send(extender.config.preempt_verb, body))
        for node, node_victims in answer.items():
            if self._cache.slot_of(node) < 0:
                raise ExtenderError(f"nodeinfo not found for node name {golang.quote(node)}")
            for uid in node_victims.uids:
                placed = self._cache.pod(uid)
                if placed is None or placed.node_name != node:
                    raise ExtenderError(
                        f"extender: {extender.config.url_prefix} claims to preempt pod (UID: &{{{uid}}}) on node: "
                        f"{node}, but the pod is not found on that node"
                    )
        return answer

    def _preemption_body(
        self, extender: _Extender, pod: bytes, victims: Mapping[str, extender_wire.Victims]
    ) -> bytes | None:
        """Make the body, without candidates whose victims were deleted: that requeues the pod. None if none remains."""
        if extender.config.node_cache_capable:
            return extender_wire.preemption_body(pod, victims, None)
        pod_bytes = {
            uid: self._objects.pod(uid, node) for node, node_victims in victims.items() for uid in node_victims.uids
        }
        whole = {uid: bytes_of for uid, bytes_of in pod_bytes.items() if bytes_of is not None}
        remaining = {
            node: node_victims for node, node_victims in victims.items() if whole.keys() >= set(node_victims.uids)
        }
        return extender_wire.preemption_body(pod, remaining, whole) if remaining else None

    def _identity_of_placed_pod(self, uid: str) -> cycle_pb2.PodIdentity:
        """The identity of a pod that the cache knows."""
        placed = self._cache.pod(uid)
        assert placed is not None  # looked up a moment ago
        namespace, _, name = placed.key.partition("/")
        return cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=uid)


def _filters_or_scores(extender: _Extender) -> bool:
    return bool(extender.config.filter_verb or extender.config.prioritize_verb)


def _wrapped_to_int64(score: int) -> int:
    """Wrap around at 64 bits, as Go's sums do."""
    return (score + (1 << 63)) % (1 << 64) - (1 << 63)


def _ranks_from_zero(totals: Iterable[int]) -> dict[int, int]:
    """What to add to each total.

    Only differences between nodes count, so none need be below 0; a difference larger than plugins can make up for
    stays that large.
    """
    ordered = sorted(set(totals))
    if ordered[-1] - ordered[0] <= _MOST:
        return {total: total - ordered[0] for total in ordered}
    out, rank = {}, 0
    for total, next_one in zip(ordered, [*ordered[1:], ordered[-1]], strict=True):
        out[total] = rank
        rank += min(next_one - total, _GAP)
    return out


def _check_names_requested(extender: _Extender, answered: Sequence[str], requested: Sequence[str]) -> None:
    """Raises: ExtenderError if the answer names a node that was not in the request."""
    allowed = set(requested)
    for name in answered:
        if name not in allowed:
            raise ExtenderError(
                f"extender {golang.quote(extender.config.url_prefix)} claims a filtered node {golang.quote(name)} "
                "which is not found in the input node list"
            )


def _log_skipped_extender(extender: _Extender, error: ExtenderError) -> None:
    """Log that an ignorable extender failed, in kube-scheduler's words."""
    log.info(
        "Skipping extender as it returned error and has ignorable flag set: extender=%s err=%s",
        extender.config.url_prefix,
        error,
    )


def _drop_nodes_without_victims(
    victims: dict[str, extender_wire.Victims], before: Set[str], extender: _Extender
) -> None:
    """Drop nodes whose last victim the extender took away; those `before` had none, and are left to the next one.

    Raises: ExtenderError: the extender is not ignorable.
    """
    empty = [node for node, node_victims in victims.items() if not node_victims.uids and node not in before]
    if empty and not extender.config.ignorable:
        raise ExtenderError(f"expected at least one victim pod on node {golang.quote(empty[0])}")
    for node in empty:
        del victims[node]
