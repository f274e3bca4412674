"""The filter plugins of a profile's chain."""

from typing import Any

import pytest

from trireme.registry import filter_profiles, score_profiles
from trireme.v1 import plugin_pb2, snapshot_pb2

_PRE_FILTER = plugin_pb2.EXTENSION_POINT_PRE_FILTER
_FILTER = plugin_pb2.EXTENSION_POINT_FILTER


class _Remote:
    """A plugin that is a service of its own; its other methods are not called here."""

    def __init__(self, remote: snapshot_pb2.RemotePlugin, profile: str) -> None:
        self.name = remote.name
        self.depends_on = 0


@pytest.mark.parametrize(
    ("served", "shadow", "expected"),
    [
        ([_PRE_FILTER], False, ["NodeName", "Licences"]),
        ([_PRE_FILTER, plugin_pb2.EXTENSION_POINT_RESERVE], False, ["NodeName", "Licences"]),
        ([_PRE_FILTER, _FILTER], False, ["NodeName"]),
        ([_PRE_FILTER], True, ["NodeName"]),
    ],
)
def test_a_remote_plugin_with_pre_filter_alone_takes_part(served: list[Any], shadow: bool, expected: list[str]) -> None:
    """If this fails, a plugin that refuses pods before Filter is never called, and nobody hears of it.

    One with Filter, which this profile does not name there, is left out, and so is one in shadow mode.
    """
    sets = [
        snapshot_pb2.PluginSet(extension_point=point, plugins=[snapshot_pb2.WeightedPlugin(name=name)])
        for point, name in ((_PRE_FILTER, "Licences"), (_FILTER, "NodeName"))
    ]
    info = plugin_pb2.PluginInfo(name="Licences", extension_points=served)
    configuration = snapshot_pb2.Configuration(
        profiles=[snapshot_pb2.Profile(scheduler_name="default-scheduler", plugin_sets=sets)],
        remote_plugins=[snapshot_pb2.RemotePlugin(name="Licences", info=info, shadow=shadow)],
    )
    make: Any = _Remote
    chain = filter_profiles.make_filter_chains(configuration, make)["default-scheduler"]
    assert [plugin.name for plugin in chain.plugins] == expected


def test_a_canary_with_pre_filter_alone_answers_for_its_own_pods() -> None:
    """If this fails, both versions are called about each pod, and either may refuse it."""
    names = ["Licences", "Licences/canary"]
    entries = [snapshot_pb2.WeightedPlugin(name=name) for name in names]
    configuration = snapshot_pb2.Configuration(
        profiles=[
            snapshot_pb2.Profile(
                scheduler_name="default-scheduler",
                plugin_sets=[snapshot_pb2.PluginSet(extension_point=_PRE_FILTER, plugins=entries)],
            )
        ],
        remote_plugins=[
            snapshot_pb2.RemotePlugin(
                name=name, info=plugin_pb2.PluginInfo(name="Licences", extension_points=[_PRE_FILTER])
            )
            for name in names
        ],
    )
    make: Any = _Remote
    chain = filter_profiles.make_filter_chains(configuration, make)["default-scheduler"]
    assert [plugin.name for plugin in chain.plugins] == names
    assert not any(isinstance(plugin, _Remote) for plugin in chain.plugins)


@pytest.mark.parametrize(
    ("point", "make", "message"),
    [
        (_FILTER, filter_profiles.make_profiles, "profile batch: no filter plugin Newer"),
        (plugin_pb2.EXTENSION_POINT_SCORE, score_profiles.make_profiles, "profile batch: no score plugin Newer"),
    ],
    ids=["filter", "score"],
)
def test_a_plugin_that_this_release_lacks_is_refused(
    point: plugin_pb2.ExtensionPoint.ValueType, make: Any, message: str
) -> None:
    """During an update the frontend may be newer: pods must not be placed without what their profile names."""
    plugins = snapshot_pb2.PluginSet(extension_point=point, plugins=[snapshot_pb2.WeightedPlugin(name="Newer")])
    profile = snapshot_pb2.Profile(scheduler_name="batch", plugin_sets=[plugins])
    with pytest.raises(ValueError, match=message):
        make(snapshot_pb2.Configuration(profiles=[profile]), _Remote)
