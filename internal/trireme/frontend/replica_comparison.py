"""Compares the replicas of a plugin, which have to be one version with the same description.

A call goes to any of them, and an answer is cached whichever replica gave it: with two versions, which one decided
about a node is chance. A rollout passes through that, so a difference is shown and logged, and changes nothing else.

Tests: tests/contract/test_plugin_monitor.py.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from google.protobuf import message
from grpc import aio

from trireme.frontend import replica_channels
from trireme.plugin_api import plugin_info_validation
from trireme.remote import endpoint_set, plugin_control, remote_client, remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2

# How long an answer of a replica, and looking up a name, may take.
TIMEOUT_SECONDS = 2.0


async def find_difference(name: str, connection: replica_channels.ReplicaChannels) -> str:
    """Say how the replicas of the plugin called `name` differ, by two of them; empty: they do not.

    Those that cannot be reached are left out: no call reaches them either.
    """
    dialer = connection.dialer
    targets = await _resolve_targets(connection.targets, dialer)
    if len(targets) < 2:
        return ""
    descriptions = await asyncio.gather(*(_describe(name, target, dialer) for target in targets))
    known = [(target, each) for target, each in zip(targets, descriptions, strict=True) if each is not None]
    for target, description in known[1:]:
        first, other = known[0]
        if description != other:
            how = _difference(first, other, target, description)
            return f"its replicas differ: {how}; calls go to all of them: finish the rollout, or make them one version"
    return ""


async def _resolve_targets(targets: Sequence[str], dialer: dialing.Dialer) -> list[str]:
    """Find the addresses that calls go to: those of a name one by one, where they are called so."""
    found: dict[str, None] = {}
    for target in targets:
        addresses: Sequence[str] = ()
        if target.startswith(endpoint_set.DNS) and dialer.can_dial_addresses:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    addresses = await endpoint_set.resolve(target.removeprefix(endpoint_set.DNS))
        found.update(dict.fromkeys(addresses or (target,)))
    return list(found)


async def _describe(name: str, target: str, dialer: dialing.Dialer) -> plugin_pb2.PluginInfo | str | None:
    """One replica's description, or what is wrong with it; None: it cannot be reached."""
    connection = dialer.open(target, remote_endpoint.OPTIONS)
    try:
        response = await plugin_control.get_plugin_info(connection.channel, TIMEOUT_SECONDS)
        return plugin_info_validation.normal_form(remote_client.select_info(name, response))
    except (ValueError, message.DecodeError) as error:
        return str(error)
    except aio.AioRpcError as error:
        if error.code() in remote_client.UNREACHABLE:
            return None
        return remote_endpoint.error_line(error, connection)
    finally:
        await connection.close()


def _difference(
    first: str, description: plugin_pb2.PluginInfo | str, second: str, other: plugin_pb2.PluginInfo | str
) -> str:
    """How two replicas differ, each with its address and version."""
    texts = f"{first} {_text(description)}, {second} {_text(other)}"
    if isinstance(description, str) or isinstance(other, str) or description.version != other.version:
        return texts
    names = [field.name for field in plugin_pb2.PluginInfo.DESCRIPTOR.fields]
    fields = [name for name in names if getattr(description, name) != getattr(other, name)]
    return f"{texts}, with other {', '.join(fields)}"


def _text(description: plugin_pb2.PluginInfo | str) -> str:
    if isinstance(description, str):
        return f"has no usable description ({description})"
    return f"is version {remote_endpoint.one_line(description.version) or '(none)'}"
