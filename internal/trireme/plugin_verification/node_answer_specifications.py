"""What the answers of Filter and Score depend on: not on the call, the order of nodes, or what is not declared.

Tests: tests/contract/test_plugin_verification.py, tests/unit/plugin_verification/test_specifications.py.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from google.protobuf.message import Message

from trireme.plugin_verification import (
    check_factories,
    column_specifications,
    exchanges,
    outcomes,
    rpcs,
    sample_requests,
)
from trireme.plugin_verification.sentences import Sentence
from trireme.plugin_verification.session import GENERATION, Session
from trireme.plugin_verification.specification import Specification
from trireme.v1 import cycle_pb2, filter_pb2, plugin_pb2, score_pb2, status_pb2

_CACHED = (plugin_pb2.DEPENDENCY_NODE, plugin_pb2.DEPENDENCY_NODE_PODS)
_UNLIMITED = 2**31 - 1

Answers = Sequence[Hashable]
"""One entry for each node: its score, or its status and capacity."""


async def node_answers(
    session: Session, rpc: rpcs.Rpc, nodes: Sequence[int], cycle: cycle_pb2.Cycle | None = None
) -> tuple[exchanges.Exchange, Answers]:
    """Call Filter or Score about these sample nodes. Raises: NotApplicable, NotChecked: the answer cannot be read."""
    cycle = cycle or await sample_requests.cycle_for(session, rpc)
    each = await session.answer(rpc, node_request(rpc, cycle, session.selection(nodes)))
    return each, read(each)


def node_request(rpc: rpcs.Rpc, cycle: cycle_pb2.Cycle, nodes: filter_pb2.NodeSelection) -> Message:
    """The request of Filter or Score."""
    if rpc is rpcs.FILTER:
        return filter_pb2.FilterRequest(cycle=cycle, count=_UNLIMITED, nodes=nodes)
    return score_pb2.ScoreRequest(cycle=cycle, nodes=nodes)


def read(each: exchanges.Exchange) -> Answers:
    """One entry for each node of the request. Raises: NotChecked: the answer does not fit the request."""
    if isinstance(each.response, score_pb2.ScoreResponse):
        assert isinstance(each.request, score_pb2.ScoreRequest)
        count = len(each.request.nodes.nodes) or len(each.request.nodes.slots)
        status = each.response.status
        if status.code != status_pb2.CODE_SUCCESS:
            code = status_pb2.Code.Name(status.code) if status.code in status_pb2.Code.values() else status.code
            raise outcomes.NotChecked(f"Score answered {code}: {'; '.join(status.messages)}")
        if len(each.response.scores) != count:
            raise outcomes.NotChecked("Score does not answer one score for each node")
        return list(each.response.scores)
    assert isinstance(each.response, filter_pb2.FilterResponse | filter_pb2.FilterDryRunResponse)
    columns, count = each.response.columns, column_specifications.node_count(each)
    if not count == len(columns.status_index) == len(columns.capacity):
        raise outcomes.NotChecked(f"{each.rpc.name} does not answer one entry for each node")
    if max(columns.status_index, default=0) > len(columns.statuses):
        raise outcomes.NotChecked(f"{each.rpc.name} answers an index without a status")
    statuses = [b"", *(status.SerializeToString(deterministic=True) for status in columns.statuses)]
    return [(statuses[index], capacity) for index, capacity in zip(columns.status_index, columns.capacity, strict=True)]


async def _stable_answers(session: Session, rpc: rpcs.Rpc) -> Answers:
    """The answers about all nodes. Raises: NotChecked: a repeated call is answered in another way."""
    _, first = await node_answers(session, rpc, session.all_nodes)
    _, again = await node_answers(session, rpc, session.all_nodes)
    if first != again:
        raise outcomes.NotChecked(f"{rpc.name} does not answer a repeated call in the same way")
    return first


def _deterministic(number: str, rpc: rpcs.Rpc, *sentences: Sentence) -> Specification:
    async def check(session: Session) -> None:
        _require_cached(session)
        _, first = await node_answers(session, rpc, session.all_nodes)
        for _ in range(4):
            each, again = await node_answers(session, rpc, session.all_nodes)
            if again != first:
                _raise_first_difference(session, each, session.all_nodes, first, again, "at the first call")

    return Specification(
        number,
        "determinism",
        f"{rpc.name} answers the same call in the same way",
        sentences,
        frozenset(rpc.points),
        check,
    )


def ordered(number: str, rpc: rpcs.Rpc, group: str, *sentences: Sentence) -> Specification:
    """The answers of Filter or Score follow the order of the nodes in the request."""

    async def check(session: Session) -> None:
        first = await _stable_answers(session, rpc)
        if len(set(first)) == 1:
            raise outcomes.NotApplicable("every sample node has the same answer; --objects adds others")
        backwards = session.all_nodes[::-1]
        each, answers = await node_answers(session, rpc, backwards)
        expected = [first[at] for at in backwards]
        if answers != expected and Counter(answers) == Counter(first):
            _raise_first_difference(session, each, backwards, expected, answers, "in a call with the nodes reversed")

    title = f"{rpc.name} answers in the order of the request"
    return Specification(number, group, title, sentences, frozenset(rpc.points), check)


def _independent_of_other_nodes(number: str, rpc: rpcs.Rpc, *sentences: Sentence) -> Specification:
    async def check(session: Session) -> None:
        _require_cached(session)
        first = await _stable_answers(session, rpc)
        _, backwards = await node_answers(session, rpc, session.all_nodes[::-1])
        singly = []
        for at in session.all_nodes:
            each, answers = await node_answers(session, rpc, [at])
            singly.append((each, answers[0]))
        if Counter(answer for _, answer in singly) == Counter(first) == Counter(backwards):
            return  # what is only in another order is reported for the order
        for at, (each, answer) in enumerate(singly):
            if answer != first[at]:
                _raise_first_difference(session, each, [at], [first[at]], [answer], "in a call about all nodes")

    title = f"{rpc.name}'s answer about a node does not depend on the other nodes in the call"
    return Specification(number, "declared dependency", title, sentences, frozenset(rpc.points), check)


def _independent_of_the_cycle(number: str, rpc: rpcs.Rpc, *sentences: Sentence) -> Specification:
    async def check(session: Session) -> None:
        _require_cached(session)
        first = await _stable_answers(session, rpc)
        cycle = await sample_requests.cycle_for(session, rpc)
        if session.followed is None:
            cycle.generation = GENERATION + 1_000
            cycle.pod_class = 99
        cycle.fence.lease_valid_ms = 1
        each, answers = await node_answers(session, rpc, session.all_nodes, cycle)
        if answers != first:
            where = f"at generation {GENERATION}"
            _raise_first_difference(session, each, session.all_nodes, first, answers, where)

    title = f"{rpc.name}'s answer depends neither on the generation nor on the number of the class"
    return Specification(number, "declared dependency", title, sentences, frozenset(rpc.points), check)


def _independent_of_pods(number: str, rpc: rpcs.Rpc) -> Specification:
    async def check(session: Session) -> None:
        _require_cached(session)
        if session.followed is None:
            raise outcomes.NotApplicable("the plugin does not follow the cluster, so it knows no pods of nodes")
        first = await _stable_answers(session, rpc)
        if not await session.followed.place_pods([1], session.settings.deadline_seconds):
            raise outcomes.NotChecked("the plugin does not acknowledge a delta")
        each, answers = await node_answers(session, rpc, session.all_nodes)
        on_node_alone = session.info.depends_on == plugin_pb2.DEPENDENCY_NODE
        sentence = _NODE if on_node_alone else _NODE_PODS
        came_to = session.cluster.nodes[1].name
        for at in session.all_nodes:
            if at != 1:
                where = f"before a pod came to node {came_to}"
            elif on_node_alone:
                where = "before a pod came to it: it declares that its answers depend on the node object, not on pods"
            else:
                continue
            _raise_first_difference(session, each, [at], [first[at]], [answers[at]], where, sentence)

    title = f"{rpc.name}'s answer about a node does not change with pods that it does not depend on"
    sentences = (_NODE, _NODE_PODS)
    return Specification(number, "declared dependency", title, sentences, frozenset(rpc.points), check)


def _require_cached(session: Session) -> None:
    """Raises: NotApplicable for a plugin whose answers may depend on anything."""
    if session.info.depends_on not in _CACHED:
        raise outcomes.NotApplicable("the plugin declares that its answers depend on the whole cluster")


def _raise_first_difference(
    session: Session,
    each: exchanges.Exchange,
    nodes: Sequence[int],
    expected: Answers,
    got: Answers,
    where: str,
    *sentences: Sentence,
) -> None:
    """Raises: Violation naming the first node whose answers differ, with the sentences that it violates."""
    for at, before, after in zip(nodes, expected, got, strict=True):
        if before != after:
            name = session.cluster.nodes[at].name
            text = f"node {name} is answered {_text(after)}, and {_text(before)} {where}"
            raise outcomes.Violation(text, each, sentences)


def _text(answer: Hashable) -> str:
    """An answer for a message."""
    if not isinstance(answer, tuple):
        return str(answer)
    data, capacity = answer
    status = status_pb2.Status.FromString(data)
    if not data:
        return f"pass (capacity {capacity})"
    code = status_pb2.Code.Name(status.code) if status.code in status_pb2.Code.values() else status.code
    return f"{code} {', '.join(status.messages)!r}"


async def _check_dry_run_without_changes(session: Session) -> None:
    first = await _stable_answers(session, rpcs.FILTER)
    cycle = await sample_requests.cycle_for(session, rpcs.FILTER_DRY_RUN)
    runs = [sample_requests.dry_run(session, at) for at in session.all_nodes]
    each = await session.answer(rpcs.FILTER_DRY_RUN, filter_pb2.FilterDryRunRequest(cycle=cycle, runs=runs))
    if (answers := read(each)) != first:
        _raise_first_difference(session, each, session.all_nodes, first, answers, "by Filter")


async def _check_dry_runs_are_independent(session: Session) -> None:
    _require_cached(session)
    cycle = await sample_requests.cycle_for(session, rpcs.FILTER_DRY_RUN)
    plain = sample_requests.dry_run(session, 0)
    changed = sample_requests.dry_run(session, 0, removed=True, added=True)
    request = filter_pb2.FilterDryRunRequest(cycle=cycle, runs=[plain, changed, plain])
    each = await session.answer(rpcs.FILTER_DRY_RUN, request)
    first, _, last = read(each)
    if first != last:
        _raise_first_difference(session, each, [0], [first], [last], "in the dry run before")


async def _check_dry_runs_of_nodes_alone(session: Session) -> None:
    if session.info.depends_on != plugin_pb2.DEPENDENCY_NODE:
        raise outcomes.NotApplicable("depends_on is not DEPENDENCY_NODE")
    cycle = await sample_requests.cycle_for(session, rpcs.FILTER_DRY_RUN)
    answers: list[tuple[exchanges.Exchange, Answers]] = []
    for removed, added in ((False, False), (True, False), (False, True)):
        run = sample_requests.dry_run(session, 0, removed=removed, added=added)
        each = await session.answer(rpcs.FILTER_DRY_RUN, filter_pb2.FilterDryRunRequest(cycle=cycle, runs=[run]))
        answers.append((each, read(each)))
    for each, answer in answers[1:]:
        if answer != answers[0][1]:
            _raise_first_difference(session, each, [0], answers[0][1], answer, "with the pods as they are")


_FILTER: tuple[rpcs.Point, ...] = (rpcs.FILTER_POINT,)
_NODE = Sentence("Dependency.DEPENDENCY_NODE", "On the node object alone: the result is cached until the node changes.")
_NODE_PODS = Sentence(
    "Dependency.DEPENDENCY_NODE_PODS", "Also on the pods of that node: called again for nodes whose pods changed."
)
_IDEMPOTENT_FILTER = Sentence(
    "FilterPlugin.Filter",
    "Filter answers for each node whether the pod may run there and how many copies fit. Idempotent.",
)
_IDEMPOTENT_DRY_RUN = Sentence(
    "FilterPlugin.FilterDryRun",
    "it takes the place of the framework's AddPod and RemovePod. Preemption calls it. Idempotent.",
)

filter_order = ordered(
    "P070",
    rpcs.FILTER,
    "Filter",
    Sentence("NodeColumns", "one entry a node, in the order of the request, or by slot for all nodes"),
)
dry_run_without_changes = Specification(
    "P071",
    "Filter",
    "FilterDryRun answers as Filter where no pod is removed or added",
    (
        Sentence(
            "FilterPlugin.FilterDryRun",
            "FilterDryRun is Filter for single nodes as if some pods were removed from them and others placed on them",
        ),
    ),
    frozenset(_FILTER),
    _check_dry_run_without_changes,
)
dry_runs_are_independent = Specification(
    "P072",
    "Filter",
    "Each dry run is answered by itself",
    (Sentence("FilterDryRunRequest.runs", "REQUIRED. The dry runs, each by itself."),),
    frozenset(_FILTER),
    _check_dry_runs_are_independent,
)
filter_is_deterministic = _deterministic("P073", rpcs.FILTER, _IDEMPOTENT_FILTER)
score_is_deterministic = _deterministic(
    "P074", rpcs.SCORE, Sentence("ScorePlugin.Score", "Score returns raw scores. Idempotent.")
)
dry_run_may_be_repeated = check_factories.repeated("P075", "determinism", rpcs.FILTER_DRY_RUN, _IDEMPOTENT_DRY_RUN)
filter_of_single_nodes = _independent_of_other_nodes("P076", rpcs.FILTER, _NODE)
score_of_single_nodes = _independent_of_other_nodes("P077", rpcs.SCORE, _NODE)
filter_in_other_cycles = _independent_of_the_cycle("P078", rpcs.FILTER, _NODE)
score_in_other_cycles = _independent_of_the_cycle("P079", rpcs.SCORE, _NODE)
dry_runs_of_nodes_alone = Specification(
    "P080",
    "declared dependency",
    "FilterDryRun of a plugin that depends on the node alone answers the same whatever the pods",
    (_NODE,),
    frozenset(_FILTER),
    _check_dry_runs_of_nodes_alone,
)
filter_with_other_pods = _independent_of_pods("P081", rpcs.FILTER)
score_with_other_pods = _independent_of_pods("P082", rpcs.SCORE)
