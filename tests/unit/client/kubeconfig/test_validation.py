"""What is wrong with the entries of a kubeconfig; `make differential` compares the words with kube-scheduler's."""

import pytest

from trireme_kube.client.kubeconfig import validation


@pytest.mark.parametrize("size", [None, 0, 1, 100, -1, 101])
def test_a_pool_of_connections_is_between_0_and_100(size: int | None) -> None:
    cluster = {"server": "https://x", **({} if size is None else {"min-connection-pool-size": size})}
    problem = f"invalid 'min-connection-pool-size' {size} for cluster \"c\": must be between 0 and 100"
    assert validation.cluster_problems("c", cluster) == ([problem] if size in (-1, 101) else [])
