"""ImageLocality: images that a node has, by size and by how many nodes have them."""

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import cluster_of, pod_of
from trireme.plugins.image_locality import score as image_locality

MIB = 1024 * 1024


def test_images_count_by_size_and_by_how_many_nodes_have_them() -> None:
    builder = cluster_of(
        n0={"images": {"a:latest": 500 * MIB, "b:1": 200 * MIB}}, n1={"images": {"a:latest": 500 * MIB}}, n2={}, n3={}
    )
    containers = [{"name": "x", "image": "a"}, {"name": "y", "image": "b:1"}]
    answers = Answers(builder, image_locality.ImageLocality(), pod_of({"containers": containers}))
    most = 2 * 1000 * MIB
    low = 23 * MIB

    def score(total: int) -> int:
        return 100 * (total - low) // (most - low)

    assert answers.scores() == {
        "n0": score(500 * MIB * 2 // 4 + 200 * MIB // 4),
        "n1": score(500 * MIB * 2 // 4),
        "n2": 0,
        "n3": 0,
    }


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("host:5000/web", "host:5000/web:latest"),
        ("host:5000/web:2", "host:5000/web:2"),
        ("web@sha256:abc", "web@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, name: str) -> None:
    assert image_locality.normalized_name(image) == name
