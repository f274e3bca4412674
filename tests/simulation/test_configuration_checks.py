"""Which plugins the checks of a replaced configuration hold a frontend to."""

from tests.simulation.configuration_checks import second_plugin
from tests.simulation.simulated_plugin import NAME, SECOND_NAME
from trireme.v1 import plugin_pb2, snapshot_pb2


def _configuration(**filters: list[str]) -> snapshot_pb2.Configuration:
    """Both plugins have an address; these plugins filter in each profile."""
    configuration = snapshot_pb2.Configuration(
        remote_plugins=[snapshot_pb2.RemotePlugin(name=name) for name in (NAME, SECOND_NAME)]
    )
    for profile, names in filters.items():
        added = configuration.profiles.add(scheduler_name=profile)
        points = added.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
        for name in names:
            points.plugins.add(name=name)
    return configuration


def test_a_plugin_with_an_address_takes_part_in_the_profiles_that_have_it() -> None:
    """The files are not replaced at one time: one may state a plugin that the other has not or has no more."""
    assert second_plugin(_configuration(a=[NAME], b=[NAME])) is None
    assert second_plugin(_configuration(a=[NAME, SECOND_NAME], b=[NAME])) is None
    both = _configuration(a=[NAME, SECOND_NAME], b=[SECOND_NAME])
    assert second_plugin(both) == both.remote_plugins[1]
    one = _configuration(a=[NAME, SECOND_NAME], b=[NAME])
    assert second_plugin(one, "a") == one.remote_plugins[1]
    assert second_plugin(one, "b") is None
    assert second_plugin(snapshot_pb2.Configuration(profiles=both.profiles)) is None
