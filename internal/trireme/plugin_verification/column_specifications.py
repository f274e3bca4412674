"""Filter and FilterDryRun: the columns of their answers.

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Iterator

from trireme.plugin_verification import check_factories, exchanges, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import filter_pb2, plugin_pb2, status_pb2

_GROUP = "Filter"
_FILTER = (rpcs.FILTER_POINT,)
_UNLIMITED = 2**31 - 1

filter_is_served = check_factories.served(
    "P040", _GROUP, rpcs.FILTER, Sentence(PROTOCOL, "`FilterPlugin.Filter`, `FilterDryRun` (for preemption)")
)
filter_dry_run_is_served = check_factories.served(
    "P041", _GROUP, rpcs.FILTER_DRY_RUN, Sentence(PROTOCOL, "`FilterPlugin.Filter`, `FilterDryRun` (for preemption)")
)


async def _columns(session: Session) -> list[tuple[exchanges.Exchange, filter_pb2.NodeColumns, int]]:
    """The columns of the sample answers, with how many nodes each is about. Raises: NotApplicable, NotChecked."""
    out = []
    calls = [
        each
        for rpc in (rpcs.FILTER, rpcs.FILTER_DRY_RUN)
        for each in await sample_requests.samples(session, rpc)
        if each.response is not None
    ]
    for each in calls:
        response = each.response
        assert isinstance(response, filter_pb2.FilterResponse | filter_pb2.FilterDryRunResponse)
        if response.HasField("columns"):
            out.append((each, response.columns, node_count(each)))
    if not out:
        raise outcomes.NotChecked("neither Filter nor FilterDryRun answers columns")
    return out


def node_count(each: exchanges.Exchange) -> int:
    """How many nodes, or dry runs, the request is about."""
    if isinstance(each.request, filter_pb2.FilterRequest):
        return len(each.request.nodes.nodes) or len(each.request.nodes.slots)
    assert isinstance(each.request, filter_pb2.FilterDryRunRequest)
    return len(each.request.runs)


def _entries(columns: filter_pb2.NodeColumns) -> Iterator[tuple[int, int, int]]:
    """Place, status index and capacity of the nodes that have both."""
    both = zip(columns.status_index, columns.capacity, strict=False)
    return ((at, index, capacity) for at, (index, capacity) in enumerate(both))


async def _check_columns_are_set(session: Session, rpc: rpcs.Rpc) -> None:
    for each in await sample_requests.answered(session, rpc):
        assert isinstance(each.response, filter_pb2.FilterResponse | filter_pb2.FilterDryRunResponse)
        if not each.response.HasField("columns"):
            raise outcomes.Violation("columns is not set", each)


@specification(
    "P042",
    _GROUP,
    Sentence("FilterResponse.columns", "REQUIRED. One entry a node, in the order of the request."),
    points=_FILTER,
)
async def filter_answers_columns(session: Session) -> None:
    """Filter answers columns."""
    await _check_columns_are_set(session, rpcs.FILTER)


@specification(
    "P043",
    _GROUP,
    Sentence("FilterDryRunResponse.columns", "REQUIRED. One entry a dry run, in the order of the request."),
    points=_FILTER,
)
async def filter_dry_run_answers_columns(session: Session) -> None:
    """FilterDryRun answers columns, one entry for each dry run."""
    await _check_columns_are_set(session, rpcs.FILTER_DRY_RUN)


@specification(
    "P044", _GROUP, Sentence("NodeColumns.size", "REQUIRED. How many entries the complete answer has."), points=_FILTER
)
async def the_size_is_that_of_the_request(session: Session) -> None:
    """`columns.size` is the number of nodes in the request."""
    for each, columns, count in await _columns(session):
        if columns.size != count:
            raise outcomes.Violation(f"columns.size is {columns.size}; expected {count}", each)


@specification(
    "P045",
    _GROUP,
    Sentence("NodeColumns.status_index", "REQUIRED. For each node the status of the plugin that refused it"),
    points=_FILTER,
)
async def each_node_has_a_status_index(session: Session) -> None:
    """`columns.status_index` has an entry for each node."""
    for each, columns, count in await _columns(session):
        if len(columns.status_index) != count:
            text = f"columns.status_index has {len(columns.status_index)} entries; expected {count}"
            raise outcomes.Violation(text, each)


@specification("P046", _GROUP, Sentence("NodeColumns.status_index", "counted from 1 in `statuses`"), points=_FILTER)
async def status_indices_are_in_range(session: Session) -> None:
    """Each status index is 0, or the number of an entry of `columns.statuses` from 1."""
    for each, columns, _ in await _columns(session):
        for at, index in enumerate(columns.status_index):
            if index > len(columns.statuses):
                text = f"columns.status_index[{at}] is {index}, but there are {len(columns.statuses)} statuses"
                raise outcomes.Violation(text, each)


@specification(
    "P047",
    _GROUP,
    Sentence("NodeColumns.capacity", "REQUIRED of Filter. For each node how many more copies fit"),
    points=_FILTER,
)
async def each_node_has_a_capacity(session: Session) -> None:
    """`columns.capacity` has an entry for each node."""
    for each, columns, count in await _columns(session):
        if len(columns.capacity) != count:
            raise outcomes.Violation(f"columns.capacity has {len(columns.capacity)} entries; expected {count}", each)


@specification(
    "P048",
    _GROUP,
    Sentence("NodeColumns.status_index", "0: it passes, or (where capacity is 0 too) there is no node at this slot"),
    points=_FILTER,
)
async def nodes_that_pass_have_capacity(session: Session) -> None:
    """A node that passes takes at least one copy of the pod."""
    for each, columns, _ in await _columns(session):
        for at, index, capacity in _entries(columns):
            if not index and not capacity:
                raise outcomes.Violation(
                    f"columns.capacity[{at}] is 0, but status_index[{at}] says that it passes", each
                )


@specification(
    "P049",
    _GROUP,
    Sentence("NodeColumns.capacity", "For each node how many more copies fit, at most INT32_MAX."),
    points=_FILTER,
)
async def capacities_are_not_negative(session: Session) -> None:
    """No capacity is negative: without a limit it is INT32_MAX."""
    for each, columns, _ in await _columns(session):
        for at, capacity in enumerate(columns.capacity):
            if capacity < 0:
                raise outcomes.Violation(f"columns.capacity[{at}] is {capacity}; no limit is {_UNLIMITED}", each)


@specification(
    "P050",
    _GROUP,
    Sentence("NodeColumns.capacity", "0 where it was refused, but for a node refused by a domain constraint alone"),
    points=_FILTER,
)
async def refused_nodes_have_no_capacity(session: Session) -> None:
    """A node that is refused has the capacity 0."""
    if session.info.depends_on not in (plugin_pb2.DEPENDENCY_NODE, plugin_pb2.DEPENDENCY_NODE_PODS):
        raise outcomes.NotApplicable("answers that depend on the cluster may be about domains")
    for each, columns, _ in await _columns(session):
        for at, index, capacity in _entries(columns):
            if index and capacity > 0:
                text = f"columns.capacity[{at}] is {capacity}, but status_index[{at}] is {index}: refused"
                raise outcomes.Violation(text, each)


@specification(
    "P051",
    _GROUP,
    Sentence("Dependency.DEPENDENCY_NODE", "On the node object alone: the result is cached until the node changes."),
    points=_FILTER,
)
async def capacities_of_nodes_alone_are_unlimited(session: Session) -> None:
    """A plugin that depends on the node alone limits no capacity: placed pods would not be counted."""
    if session.info.depends_on != plugin_pb2.DEPENDENCY_NODE:
        raise outcomes.NotApplicable("depends_on is not DEPENDENCY_NODE")
    for each, columns, _ in await _columns(session):
        for at, index, capacity in _entries(columns):
            if not index and 0 < capacity < _UNLIMITED:
                text = f"columns.capacity[{at}] is {capacity}; a plugin that counts pods depends on NODE_PODS"
                raise outcomes.Violation(text, each)


@specification("P052", _GROUP, Sentence("NodeColumns.statuses", "REQUIRED. The distinct statuses."), points=_FILTER)
async def statuses_are_distinct(session: Session) -> None:
    """No status is in `columns.statuses` twice."""
    for each, columns, _ in await _columns(session):
        distinct = {status.SerializeToString(deterministic=True) for status in columns.statuses}
        if len(distinct) != len(columns.statuses):
            text = f"columns.statuses has {len(columns.statuses)} entries, {len(distinct)} of them distinct"
            raise outcomes.Violation(text, each)


@specification(
    "P053",
    _GROUP,
    Sentence("NodeColumns.base_generation", "0: the answer is complete"),
    Sentence("NodeColumns.slots", "REQUIRED for a patch. The slots that it holds."),
    points=_FILTER,
)
async def answers_are_complete(session: Session) -> None:
    """The answer is complete: neither `columns.base_generation` nor `columns.slots` is set."""
    for each, columns, _ in await _columns(session):
        if columns.base_generation or columns.slots:
            raise outcomes.Violation("columns.base_generation or columns.slots is set, as of a patch", each)


@specification(
    "P054",
    _GROUP,
    Sentence("NodeColumns.generation", "at most that of the call where the plugin does not follow the stream"),
    points=_FILTER,
)
async def the_generation_is_not_ahead(session: Session) -> None:
    """`columns.generation` is at most that of the call, unless the plugin follows the cluster."""
    if session.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT:
        raise outcomes.NotApplicable("the plugin follows the cluster")
    for each, columns, _ in await _columns(session):
        generation = session.cycle(0).generation
        if columns.generation > generation:
            raise outcomes.Violation(f"columns.generation is {columns.generation}; the call's is {generation}", each)


@specification(
    "P055", _GROUP, Sentence(PROTOCOL, "`status_index` 0 passes; *n* is the *n*-th entry of `statuses`"), points=_FILTER
)
async def nodes_that_pass_have_no_status(session: Session) -> None:
    """The status of a node is none of success: a node that passes has the index 0."""
    for each, columns, _ in await _columns(session):
        for at, index in enumerate(columns.status_index):
            if 0 < index <= len(columns.statuses) and columns.statuses[index - 1].code == status_pb2.CODE_SUCCESS:
                raise outcomes.Violation(f"columns.status_index[{at}] is {index}, a status of success", each)
