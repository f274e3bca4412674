"""The answers of filter and score about pods of one class: one record each, and its message.

The engines fill the records, the phases' services send them, and scheduling decides by them. So a new field of an
answer is a field of its message, of the record here with both conversions, and whatever fills and uses it.

Also change: examples/score-phase-go/answers.go (answers about placing).
Also change: protos/trireme/v1/filter_phase.proto (the messages).
Also change: protos/trireme/v1/score_phase.proto (the messages).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trireme.framework import status
from trireme.v1 import filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """Where pods of a class may run, by all filter plugins of the profile.

    `refusal` is PreFilter's; it holds for all nodes, and `columns` say nothing new.
    """

    # The verdict on each node: complete, or a patch where the caller of the engine has the rest.
    columns: node_columns.NodeColumns = field(default_factory=node_columns.NodeColumns)
    refusal: status.Status | None = None
    # The names of the nodes that PreFilter left (None: all), and the plugins that left only these.
    narrowed: frozenset[str] | None = None
    narrowed_by: frozenset[str] = frozenset()
    # Where the pod is refused on all nodes: how many nodes of the cluster each of these plugins left by itself, by the
    # plugin's name, ascending.
    nodes_left: Sequence[tuple[str, int]] = ()
    # How placements change other nodes; encoded, since only score reads them.
    constraints: Sequence[filter_phase_pb2.DomainConstraint] = ()
    # How many pods may be placed by this answer; 0: any number.
    max_batch: int = 0
    needs_reserve: bool = False
    needs_pre_bind: bool = False
    # The plugins that were not skipped.
    evaluated: Sequence[str] = ()
    timings: Sequence[filter_phase_pb2.Timing] = ()
    # PostFilter's results for the first preemptors; empty if any node passes.
    post_filter_results: Sequence[filter_phase_pb2.PostFilterResult] = ()
    # What must be free on a node for one pod, where a placed pod changes nothing but this for pods of classes that have
    # it too. Amounts above 0 by resource; None: it may change more. FilterClasses alone answers it.
    demand: Mapping[str, int] | None = None
    # FilterClasses alone: which nodes pass, a bit for each slot (`packing.to_bits`), instead of the columns' arrays.
    admitted_nodes: bytes = b""
    # How many of the nominees, from the first, may run on the nodes that they are nominated for (FilterNominated).
    admitted: int = 0
    # The message that brought `columns` up to date, if one did: score gets it as it is.
    update: filter_pb2.NodeColumns | None = None

    @property
    def feasible_count(self) -> int:
        """How many nodes pass."""
        if self.admitted_nodes:
            return int.from_bytes(self.admitted_nodes, "little").bit_count()
        return self.columns.feasible_count

    def is_refused_everywhere(self, nominated: int) -> bool:
        """Whether the pod can be placed nowhere: no node passes, or a plugin failed for one of them.

        The node that it is nominated for, at the slot, is tried before the others, and hides their failures.
        """
        if self.refusal is not None or not self.columns.has_feasible_node:
            return True
        return self.columns.error is not None and not self.columns.admits(nominated)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceAnswer:
    """The slots that the next pods go to, in order, and their totals then, if score chose them.

    `failure`: a plugin failed. `more`: call again once these pods are assumed.
    """

    slots: Sequence[int] = ()
    totals: Sequence[int] = ()
    failure: status.Status | None = None
    more: bool = False
    evaluated: Sequence[str] = ()
    timings: Sequence[filter_phase_pb2.Timing] = ()
    # What remote plugins answered, a serialised RemoteAnswers, if the call wanted it.
    remote_answers: bytes = b""

    def for_pods(self, start: int, end: int) -> "PlaceAnswer":
        """The answer for some of the pods, by their positions. Every field with one value for each pod is cut here."""
        return replace(self, slots=self.slots[start:end], totals=self.totals[start:end])


def filter_response(answer: FilterAnswer) -> filter_phase_pb2.FilterPhaseFilterResponse:
    """The message of Filter's answer; `columns` is unset if PreFilter refused the class."""
    response = filter_phase_pb2.FilterPhaseFilterResponse()
    write_filter_response(answer, response)
    return response


def write_filter_response(answer: FilterAnswer, response: filter_phase_pb2.FilterPhaseFilterResponse) -> None:
    """Write Filter's answer into this empty message, as `filter_response`."""
    response.max_batch = answer.max_batch
    response.needs_reserve, response.needs_pre_bind = answer.needs_reserve, answer.needs_pre_bind
    response.evaluated_plugins.extend(answer.evaluated)
    response.timings.extend(answer.timings)
    response.post_filter_results.extend(answer.post_filter_results)
    response.constraints.extend(answer.constraints)
    response.nodes_left.update(dict(answer.nodes_left))
    if answer.refusal is not None or answer.narrowed is not None:
        response.pre_filter.status.CopyFrom(wire_status.to_message(answer.refusal or status.SUCCESS))
        response.narrowed_by.extend(answer.narrowed_by)
    if answer.narrowed is not None:
        response.pre_filter.narrowed = True
        response.pre_filter.node_names.extend(sorted(answer.narrowed))
    if answer.demand is not None:
        response.demand.amounts.update(answer.demand)
        response.demand.SetInParent()
    response.admitted = answer.admitted_nodes
    if answer.refusal is None:
        node_columns.write_to(answer.columns, response.columns)


def filter_answer(
    response: filter_phase_pb2.FilterPhaseFilterResponse, known: node_columns.NodeColumns
) -> FilterAnswer:
    """Decode Filter's answer, which has `known` as its columns, brought up to date unless PreFilter refused the class.

    FilterClasses answers only their generation and size.

    Raises: ValueError for columns that do not fit together, or patch other ones.
    """
    refusal, narrowed = None, None
    if response.HasField("pre_filter"):
        pre_filter = wire_status.from_message(response.pre_filter.status)
        refusal = None if pre_filter.code is status.Code.SUCCESS else pre_filter
        narrowed = frozenset(response.pre_filter.node_names) if response.pre_filter.narrowed else None
    if response.admitted:
        known.generation, known.size = response.columns.generation, response.columns.size
    elif refusal is None:
        known.update(node_columns.from_message(response.columns))
    return FilterAnswer(
        columns=known,
        refusal=refusal,
        narrowed=narrowed,
        narrowed_by=frozenset(response.narrowed_by),
        nodes_left=tuple(sorted(response.nodes_left.items())),
        constraints=response.constraints,
        max_batch=response.max_batch,
        needs_reserve=response.needs_reserve,
        needs_pre_bind=response.needs_pre_bind,
        evaluated=response.evaluated_plugins,
        timings=response.timings,
        post_filter_results=response.post_filter_results,
        demand=dict(response.demand.amounts) if response.HasField("demand") else None,
        admitted_nodes=response.admitted,
        update=response.columns,
    )


def nominated_response(answer: FilterAnswer) -> filter_phase_pb2.FilterNominatedResponse:
    """The message of FilterNominated's answer."""
    return filter_phase_pb2.FilterNominatedResponse(
        admitted=answer.admitted,
        needs_reserve=answer.needs_reserve,
        needs_pre_bind=answer.needs_pre_bind,
        timings=answer.timings,
        evaluated_plugins=answer.evaluated,
    )


def nominated_answer(response: filter_phase_pb2.FilterNominatedResponse, generation: int) -> FilterAnswer:
    """Decode FilterNominated's answer to a call that named this generation."""
    return FilterAnswer(
        columns=node_columns.NodeColumns(generation),
        needs_reserve=response.needs_reserve,
        needs_pre_bind=response.needs_pre_bind,
        evaluated=response.evaluated_plugins,
        timings=response.timings,
        admitted=response.admitted,
    )


def place_response(answer: PlaceAnswer) -> score_phase_pb2.PlaceResponse:
    """The message of Place's answer; only a status if a plugin failed."""
    if answer.failure is not None:
        return score_phase_pb2.PlaceResponse(
            status=wire_status.to_message(answer.failure), remote_answers=answer.remote_answers
        )
    return score_phase_pb2.PlaceResponse(
        slots=answer.slots,
        totals=answer.totals,
        more=answer.more,
        timings=answer.timings,
        evaluated_plugins=answer.evaluated,
        remote_answers=answer.remote_answers,
    )


def place_answer(response: score_phase_pb2.PlaceResponse) -> PlaceAnswer:
    """Decode Place's answer."""
    failure = None
    if response.HasField("status"):
        placed = wire_status.from_message(response.status)
        failure = None if placed.code is status.Code.SUCCESS else placed
    return PlaceAnswer(
        slots=tuple(response.slots),
        totals=response.totals,
        failure=failure,
        more=response.more,
        evaluated=response.evaluated_plugins,
        timings=response.timings,
        remote_answers=response.remote_answers,
    )
