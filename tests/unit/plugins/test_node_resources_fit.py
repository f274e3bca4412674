"""NodeResourcesFit: what pods request and nodes have, and how full nodes get."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, SnapshotBuilder, one_node, pod_of, requesting
from trireme.framework import status
from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation import score as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.plugins.node_resources_fit import score as fit_score
from trireme.registry import filter_plugins
from trireme.snapshot import overlay
from trireme.v1 import meta_pb2, resource_pb2, snapshot_pb2

FIT = node_resources_fit.NodeResourcesFitFilter(fit_args.Args())
NODE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "example.com/gpu": "2", "pods": "3"}
TAKEN = pod_of(requesting(cpu="1", memory="1Gi", **{"example.com/gpu": "1"}))


@pytest.mark.parametrize(
    ("requests", "messages", "resolvable"),
    [
        pytest.param({}, (), True, id="nothing"),
        pytest.param({"cpu": "3", "memory": "7Gi", "example.com/gpu": "1"}, (), True, id="all-that-is-left"),
        pytest.param({"cpu": "3001m"}, ("Insufficient cpu",), True, id="cpu"),
        pytest.param({"cpu": "4001m"}, ("Insufficient cpu",), False, id="more-than-the-node-has"),
        pytest.param({"memory": "7.1Gi"}, ("Insufficient memory",), True, id="memory"),
        pytest.param({"ephemeral-storage": "11Gi"}, ("Insufficient ephemeral-storage",), False, id="ephemeral-storage"),
        pytest.param({"example.com/gpu": "2"}, ("Insufficient example.com/gpu",), True, id="extended"),
        pytest.param({"example.com/none": "1"}, ("Insufficient example.com/none",), False, id="extended-nobody-has"),
        pytest.param({"example.com/none": "0"}, (), True, id="none-of-what-nobody-has"),
        pytest.param({"hugepages-2Mi": "2Mi"}, ("Insufficient hugepages-2Mi",), False, id="hugepages"),
        pytest.param({"attachable-volumes-x": "1"}, ("Insufficient attachable-volumes-x",), False, id="attachable"),
        pytest.param({"kubernetes.io/batch-cpu": "1"}, ("Insufficient kubernetes.io/batch-cpu",), False, id="native"),
        pytest.param({"strange": "5"}, (), True, id="a-name-that-is-not-counted"),
        pytest.param({"cpu": "3.5", "memory": "9Gi"}, ("Insufficient cpu", "Insufficient memory"), False, id="two"),
    ],
)
def test_requests_must_be_free(requests: dict[str, str], messages: tuple[str, ...], resolvable: bool) -> None:
    refusal = Answers(one_node(NODE, TAKEN), FIT, pod_of(requesting(**requests))).refusals().get("n0")
    if not messages:
        assert refusal is None
        return
    code = status.Code.UNSCHEDULABLE if resolvable else status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert refusal is not None
    assert (refusal.code, tuple(sorted(refusal.messages))) == (code, messages)


def test_a_refusal_names_what_is_short_in_a_fixed_order() -> None:
    """The maps of a pod come in another order in each process, and with them the text of the same refusal."""
    requested = ["example.com/b", "memory", "example.com/a", "ephemeral-storage", "cpu"]
    for names in (requested, requested[::-1]):
        pod_class = pod_of(requesting(**dict.fromkeys(names, "90Gi")))
        refusal = Answers(one_node(NODE, TAKEN), FIT, pod_class).refusals()["n0"]
        assert [text.removeprefix("Insufficient ") for text in refusal.messages] == [
            "cpu",
            "memory",
            "ephemeral-storage",
            "example.com/a",
            "example.com/b",
        ]


def test_a_reason_has_the_requested_amount() -> None:
    (refusal,) = Answers(one_node(NODE, TAKEN), FIT, pod_of(requesting(cpu="1000"))).refusals().values()
    assert dict(refusal.reasons[0].parameters) == {"resource": "cpu", "asked": "1k"}


@pytest.mark.parametrize(
    ("allocatable", "pods", "messages"),
    [
        pytest.param({"cpu": "4", "pods": "2"}, 1, None, id="room-for-one"),
        pytest.param({"cpu": "4", "pods": "2"}, 2, ("Too many pods",), id="full"),
        pytest.param({"cpu": "4"}, 0, ("Too many pods",), id="no-pods-allowed"),
        pytest.param({"pods": "1"}, 1, ("Too many pods", "Insufficient cpu"), id="full-and-without-cpu"),
    ],
)
def test_a_node_takes_so_many_pods(allocatable: Json, pods: int, messages: tuple[str, ...] | None) -> None:
    builder = one_node(allocatable, *[pod_of() for _ in range(pods)])
    refusal = Answers(builder, FIT, pod_of(requesting(cpu="100m"))).messages().get("n0")
    assert refusal == messages


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [{}, {}], "overhead": {"cpu": "250m"}}, 250, id="overhead"),
        pytest.param(
            {
                "containers": [requesting(cpu="1")["containers"][0]],
                "initContainers": [requesting(cpu="3")["containers"][0]],
            },
            3000,
            id="init-container",
        ),
        pytest.param(
            {
                "containers": [requesting(cpu="1")["containers"][0]],
                "initContainers": [
                    {**requesting(cpu="500m")["containers"][0], "restartPolicy": "Always"},
                    requesting(cpu="2")["containers"][0],
                ],
            },
            2500,
            id="init-container-beside-a-sidecar",
        ),
        pytest.param(
            {**requesting(cpu="1"), "resources": {"requests": {"cpu": "2500m", "ephemeral-storage": "1Gi"}}},
            2500,
            id="pod-level",
        ),
    ],
)
def test_requests_include_init_containers_and_overhead(spec: Json, cpu: int) -> None:
    for left, fits in ((cpu, True), (cpu - 1, False)):
        answers = Answers(one_node({"cpu": f"{left}m", "pods": "9"}), FIT, pod_of(spec))
        assert (answers.refusals() == {}) is fits


def test_ignored_resources_are_left_to_others() -> None:
    args = fit_args.Args(
        ignored_resources=frozenset({"example.com/a", "hugepages-2Mi"}), ignored_groups=frozenset({"left.io"})
    )
    requests = {"example.com/a": "1", "left.io/b": "1", "hugepages-2Mi": "2Mi"}
    answers = Answers(
        one_node({"pods": "1"}), node_resources_fit.NodeResourcesFitFilter(args), pod_of(requesting(**requests))
    )
    assert answers.messages() == {"n0": ("Insufficient hugepages-2Mi",)}


def test_a_resource_backed_by_devices_is_left_to_them_where_the_node_has_none() -> None:
    builder = one_node({"pods": "5"})
    builder.set_node("n1", allocatable={"pods": "5", "example.com/gpu": "1"})
    builder.set_node("n2", allocatable={"pods": "5", "example.com/gpu": "3"})
    spec = resource_pb2.DeviceClassSpec(extended_resource_name="example.com/gpu")
    entry = resource_pb2.DeviceClass(metadata=meta_pb2.ObjectMeta(name="gpus"), spec=spec)
    answers = Answers(builder, FIT, pod_of(requesting(**{"example.com/gpu": "2"})))
    assert set(answers.refusals()) == {"n0", "n1"}
    builder.apply(objects=[snapshot_pb2.ClusterObject(device_class=entry)])
    assert set(answers.refusals()) == {"n1"}
    assert answers.copies() == {"n0": 5, "n1": 0, "n2": 1}
    without = filter_plugins.make_filter_plugin("NodeResourcesFit", b"", {"DRAExtendedResource": False})
    refused = Answers(builder, without, pod_of(requesting(**{"example.com/gpu": "2"}))).refusals()
    assert set(refused) == {"n0", "n1"}, "no devices stand for it in an emulated version without the gate"


def test_a_pod_with_very_many_resources_gets_a_reason_for_each() -> None:
    names = [f"example.com/r{number:02}" for number in range(70)]
    builder = SnapshotBuilder()
    builder.set_node("n0", allocatable={"pods": "1", **dict.fromkeys(names[:40], "1")})
    builder.set_node("n1", allocatable={"pods": "1", **dict.fromkeys(names[40:], "1")})
    builder.set_node("n2", allocatable={"pods": "0", **dict.fromkeys(names, "1")})
    messages = Answers(builder, FIT, pod_of(requesting(**dict.fromkeys(names, "1")))).messages()
    assert sorted(messages["n0"]) == [f"Insufficient {name}" for name in names[40:]]
    assert sorted(messages["n1"]) == [f"Insufficient {name}" for name in names[:40]]
    assert messages["n2"] == ("Too many pods",)


def test_amounts_that_cannot_be_read_fail_the_pod() -> None:
    pod = pod_of()
    pod.spec.containers[0].resources.requests["cpu"].string = "lots"
    refusal = Answers(one_node(NODE), FIT, pod).pre_filter.status
    assert refusal is not None
    assert refusal.code is status.Code.ERROR


def _fit(strategy: str, *resources: tuple[str, int], shape: tuple[tuple[int, int], ...] = ()) -> Any:
    chosen = resources or (("cpu", 1), ("memory", 1))
    return fit_score.make_scorer(fit_args.Args(strategy, chosen, shape))


RISING = ((0, 0), (100, 10))


@pytest.mark.parametrize(
    ("plugin", "score"),
    [
        # On the node: 1 cpu and 1Gi of 4 and 8Gi are taken, the pod asks for 1 and 3Gi.
        pytest.param(_fit("LeastAllocated"), (50 + 50) // 2, id="least"),
        pytest.param(_fit("MostAllocated"), (50 + 50) // 2, id="most"),
        pytest.param(_fit("LeastAllocated", ("cpu", 1)), 50, id="one-resource"),
        pytest.param(_fit("LeastAllocated", ("cpu", 3), ("ephemeral-storage", 1)), (3 * 50 + 100) // 4, id="weights"),
        pytest.param(_fit("LeastAllocated", ("cpu", 1), ("example.com/gpu", 5)), 50, id="scalar-not-asked-for"),
        pytest.param(_fit("MostAllocated", ("cpu", 1), ("example.com/none", 5)), 50, id="resource-nobody-has"),
        pytest.param(_fit("RequestedToCapacityRatio", shape=RISING), 50, id="ratio-rising"),
        pytest.param(_fit("RequestedToCapacityRatio", shape=((0, 10), (100, 0))), 50, id="ratio-falling"),
        pytest.param(
            _fit("RequestedToCapacityRatio", ("cpu", 1), ("ephemeral-storage", 1), shape=RISING),
            50,
            id="ratio-leaves-out-what-scores-nothing",
        ),
        pytest.param(_fit("RequestedToCapacityRatio", shape=((0, 2), (40, 2))), 20, id="ratio-flat-outside"),
    ],
)
def test_nodes_are_scored_by_how_full_they_get(plugin: Any, score: int) -> None:
    builder = one_node(NODE, TAKEN)
    assert Answers(builder, plugin, pod_of(requesting(cpu="1", memory="3Gi"))).scores() == {"n0": score}


def test_containers_without_requests_count_something_when_scored() -> None:
    builder = one_node({"cpu": "1", "memory": "1000Mi", "pods": "9"}, pod_of())
    assert Answers(builder, _fit("MostAllocated"), pod_of()).scores() == {"n0": (20 + 40) // 2}
    zero = pod_of(requesting(cpu="0", memory="0"))
    assert Answers(builder, _fit("MostAllocated"), zero).scores() == {"n0": (10 + 20) // 2}


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_a_node_that_is_over_its_capacity_is_as_full_as_can_be(strategy: str) -> None:
    builder = one_node({"cpu": "1", "pods": "9"}, pod_of(requesting(cpu="5")))
    plugin = _fit(strategy, ("cpu", 1))
    assert Answers(builder, plugin, pod_of()).scores() == {"n0": 0 if strategy == "LeastAllocated" else 100}


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param(((0, 0), (100, 10)), {0: 0, 33: 33, 100: 100}, id="line"),
        pytest.param(((0, 10), (50, 3), (100, 4)), {0: 100, 25: 65, 49: 32, 50: 30, 75: 35, 100: 40}, id="two-lines"),
        pytest.param(((20, 1), (40, 9)), {0: 10, 20: 10, 21: 14, 30: 50, 40: 90, 90: 90}, id="flat-outside"),
        pytest.param(((0, 10), (3, 0)), {1: 67, 2: 34}, id="towards-zero"),
    ],
)
def test_a_shape_is_interpolated_in_whole_numbers(
    points: tuple[tuple[int, int], ...], expected: dict[int, int]
) -> None:
    table = fit_score.interpolated(points)
    assert {utilization: int(table[utilization]) for utilization in expected} == expected


amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "700m", "2"]),
        "memory": st.sampled_from(["0", "1Gi", "3000M"]),
        "ephemeral-storage": st.sampled_from(["1Gi", "5Gi"]),
        "example.com/gpu": st.sampled_from(["0", "1"]),
    },
)


nodes = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["1", "4", "16"]), "pods": st.sampled_from(["0", "3", "110"])},
    optional={
        "memory": st.sampled_from(["4Gi", "64G"]),
        "ephemeral-storage": st.sampled_from(["10Gi"]),
        "example.com/gpu": st.sampled_from(["0", "2"]),
    },
)


overheads = st.sampled_from([None, {"cpu": "50m"}])


RESOURCES = (("cpu", 2), ("memory", 1), ("ephemeral-storage", 1), ("example.com/gpu", 3))
SCORERS = [
    _fit("LeastAllocated", *RESOURCES),
    _fit("MostAllocated", *RESOURCES),
    _fit("RequestedToCapacityRatio", *RESOURCES, shape=((0, 0), (60, 7), (100, 3))),
    node_resources_balanced_allocation.make_scorer(balanced_args.Args(RESOURCES)),
]


@settings(max_examples=60)
@given(st.lists(nodes, min_size=1, max_size=3), st.lists(amounts, max_size=3), amounts, overheads)
def test_copies_are_counted_and_scored_as_if_they_were_placed_one_by_one(
    cluster: list[Json], placed: list[Json], asked: Json, overhead: Json | None
) -> None:
    builder = SnapshotBuilder()
    names = [f"n{number}" for number in range(len(cluster))]
    for name, allocatable in zip(names, cluster, strict=True):
        builder.set_node(name, allocatable=allocatable)
    for number, requests in enumerate(placed, start=1):
        builder.add_class(number, pod_of(requesting(**requests)))
        builder.place(number, names[number % len(names)])
    pod = pod_of({**requesting(**asked), **({"overhead": overhead} if overhead else {})})
    builder.add_class(50, pod)
    copies = Answers(builder, FIT, pod).copies()
    ahead = {
        number: Answers(builder, plugin, pod).scores_after_copies(3)
        for number, plugin in enumerate(SCORERS)
        if Answers(builder, plugin, pod).scores() is not None
    }
    for copy in range(3):
        for number, plugin in enumerate(SCORERS):
            now = Answers(builder, plugin, pod).scores()
            assert now == ({name: row[copy] for name, row in ahead[number].items()} if number in ahead else None)
        answers = Answers(builder, FIT, pod)
        assert answers.copies() == {name: max(0, count - copy) for name, count in copies.items()}
        assert set(answers.refusals()) == {name for name, count in copies.items() if count <= copy}
        builder.place(50, *names)


LARGEST = 2**63 - 1
HALF = pod_of(requesting(**{"example.com/gpu": str(2**62), "memory": str(2**62)}))


def test_sums_that_do_not_fit_64_bits_are_as_large_as_can_be() -> None:
    """The sum wrapped around, and a full node had room for any pod."""
    node = {"memory": str(LARGEST), "example.com/gpu": str(LARGEST), "pods": "9"}
    builder = one_node(node, HALF, HALF, HALF)
    asked = pod_of(requesting(memory="1", **{"example.com/gpu": "1"}))
    assert Answers(builder, FIT, asked).messages() == {"n0": ("Insufficient memory", "Insufficient example.com/gpu")}
    assert Answers(builder, _fit("MostAllocated", ("example.com/gpu", 1)), asked).scores() == {"n0": 100}
    over = overlay.SnapshotOverlay(builder.snap, overlay.Semantics.DRY_RUN)
    over.remove(np.arange(2))
    number = builder.snap.nodes.resource_names.intern("example.com/gpu")
    assert over.requested(number, np.array([0])).tolist() == [2**62]


@pytest.mark.parametrize(
    ("strategy", "score"), [("LeastAllocated", 50), ("MostAllocated", 49), ("RequestedToCapacityRatio", 49)]
)
def test_scores_of_amounts_that_are_nearly_too_large_are_exact(strategy: str, score: int) -> None:
    """A hundred times the amount wrapped around."""
    node = {"example.com/gpu": str(LARGEST), "pods": "9"}
    asked = pod_of(requesting(**{"example.com/gpu": str(2**61 - 1)}))
    plugin = _fit(strategy, ("example.com/gpu", 1), shape=RISING)
    builder = one_node(node, pod_of(requesting(**{"example.com/gpu": str(2**61)})))
    assert Answers(builder, plugin, asked).scores() == {"n0": score}
