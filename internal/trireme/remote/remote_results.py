"""What remote plugins answer about several pods at once, read by the plugin's failure policy.

Tests: tests/unit/remote/test_remote_bind.py, tests/contract/test_bind_remote.py.
"""

from collections.abc import Sequence
from typing import TypeVar

from trireme.framework import status
from trireme.remote import remote_client, remote_response
from trireme.v1 import bind_pb2, filter_pb2, status_pb2
from trireme.wire import status as wire_status

Result = TypeVar("Result", filter_pb2.Reservation, bind_pb2.PermitResult, bind_pb2.PreBindResult)


def check_count(field: str, entries: Sequence[object], count: int) -> None:
    """Check that there are as many entries as pods. Raises: ValueError naming the field."""
    if len(entries) != count:
        raise ValueError(f"{field}: has {len(entries)} entries, must have {count}")


def read_status_by_policy(
    message: status_pb2.Status, field: str, client: remote_client.PluginClient, prefix: str, *also: status.Code
) -> status.Status:
    """The status; an error as kube-scheduler words it, or success where the plugin's errors are ignored.

    Raises:
        ValueError: names what is wrong with it.
    """
    value = remote_response.read_status(message, client.name, field, also)
    if value.code is status.Code.ERROR:
        return client.apply_failure_policy(prefix, value.message) or status.SUCCESS
    return value


def read_results(
    field: str,
    results: Sequence[Result],
    count: int,
    client: remote_client.PluginClient,
    prefix: str,
    *also: status.Code,
) -> list[Result]:
    """Read the results, each status by `read_status_by_policy`. Raises: ValueError naming what is wrong."""
    check_count(field, results, count)
    for at, result in enumerate(results):
        value = read_status_by_policy(result.status, f"{field}[{at}].status", client, prefix, *also)
        result.status.CopyFrom(wire_status.to_message(value))
    return list(results)
