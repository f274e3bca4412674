"""The statuses in filter's answers: of the class alone, numbered alike in an answer and its patches."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tests.helpers.domain_cluster import Cluster, node, pod, ten_nodes
from trireme.evaluation.filtering import filter_evaluator
from trireme.plugin_api import interfaces
from trireme.wire import node_columns

Json = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@pytest.fixture(name="cluster")
def _ten_nodes() -> Iterator[Cluster]:
    with ten_nodes() as cluster:
        yield cluster


def test_an_answer_names_only_what_nodes_say_of_its_class(cluster: Cluster) -> None:
    """Classes of a family share a table of statuses, and hundreds that fit nowhere would send those of all."""
    asked = ["9", "10", "11"]
    for cpu in asked:
        class_id = cluster.class_of(pod({"app": "a"}, requests={"cpu": cpu}))
        cluster.follow()
        columns = node_columns.from_message(cluster.ask_filter(class_id).columns)
        (refusal,) = columns.statuses
        assert dict(refusal.reasons[0].parameters)["asked"] == cpu
        assert columns.index.tolist() == [1] * 10


def test_a_patch_numbers_statuses_as_the_answer_that_it_patches(cluster: Cluster) -> None:
    """A node that refuses for another reason since is a status more; those of the other nodes keep their numbers."""
    large = pod({"app": "a"}, requests={"cpu": "3"})
    for cpu in ("9", "3"):
        class_id = cluster.class_of(pod({"app": "a"}, requests={"cpu": cpu}))
        cluster.follow()
        answer = node_columns.from_message(cluster.ask_filter(class_id).columns)
    assert answer.statuses == ()
    cluster.place(large, "n4")
    cluster.follow()
    patch = node_columns.from_message(cluster.ask_filter(class_id, known=answer.generation).columns)
    assert patch.slots is not None
    assert patch.slots.tolist() == [cluster.cache.slot_of("n4")]
    assert [dict(status.reasons[0].parameters)["asked"] for status in patch.statuses] == ["3"]
    answer.update(patch)
    whole = node_columns.from_message(cluster.ask_filter(class_id).columns)
    assert answer.index.tolist() == whole.index.tolist()
    assert answer.statuses == whole.statuses


def test_a_complete_answer_to_another_caller_leaves_patches_to_those_before(cluster: Cluster) -> None:
    class_id = cluster.class_of(pod({"app": "a"}, requests={"cpu": "3"}))
    answer = node_columns.from_message(cluster.ask_filter(class_id).columns)
    for name in ("n1", "n2"):
        cluster.place(pod({"app": "a"}, requests={"cpu": "2"}), name)
        cluster.ask_filter(class_id)
    patch = node_columns.from_message(cluster.ask_filter(class_id, known=answer.generation).columns)
    assert patch.slots is not None
    assert patch.slots.tolist() == sorted(cluster.cache.slot_of(name) for name in ("n1", "n2"))


def test_reasons_do_not_depend_on_what_the_family_saw_before(cluster: Cluster) -> None:
    """A table of statuses keeps so many with their reasons, and classes of a family share it."""
    with (
        mock.patch.object(interfaces, "DETAILED_STATUSES", 16),
        mock.patch.object(filter_evaluator, "_SHARED_STATUSES", 8),
    ):
        for number in range(40):
            class_id = cluster.class_of(pod({"app": "a"}, requests={"cpu": f"{10 + number}"}))
            columns = node_columns.from_message(cluster.ask_filter(class_id).columns)
            assert dict(columns.statuses[0].reasons[0].parameters)["asked"] == str(10 + number)


def test_an_answer_forgets_the_statuses_that_no_node_has_any_more(cluster: Cluster) -> None:
    """A taint that changes each minute would make all later answers larger."""
    class_id = cluster.class_of(pod({"app": "a"}, requests={"cpu": "9"}))
    answer = node_columns.from_message(cluster.ask_filter(class_id).columns)
    for number in range(200):
        if number == 20:  # a status that nodes go on having has another number later
            cluster.add_node(node("n1", {HOST: "n1", ZONE: "z1"}, taints=[("kept", "", "NoSchedule")]))
        cluster.add_node(node("n0", {HOST: "n0", ZONE: "z0"}, taints=[("k", f"v{number}", "NoSchedule")]))
        response = node_columns.from_message(cluster.ask_filter(class_id, known=answer.generation).columns)
        assert len(response.statuses) <= 66
        answer.update(response)
        whole = [answer.statuses[each - 1] for each in answer.index.tolist()]
        other = node_columns.from_message(cluster.ask_filter(class_id).columns)
        assert whole == [other.statuses[each - 1] for each in other.index.tolist()]
