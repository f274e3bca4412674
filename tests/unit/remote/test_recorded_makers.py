"""RecordedMakers: plugins that answer what is recorded are made as their descriptions say."""

from typing import Any

from trireme.plugin_api import interfaces, scorers
from trireme.remote import recorded_makers
from trireme.v1 import plugin_pb2, snapshot_pb2


def _plugin(**info: Any) -> snapshot_pb2.RemotePlugin:
    return snapshot_pb2.RemotePlugin(name="Far", info=plugin_pb2.PluginInfo(**info))


def test_an_evaluation_is_filters_own_only_within_it() -> None:
    makers = recorded_makers.RecordedMakers()
    before = makers.answer.filtering
    with makers.filtering():
        assert makers.answer.filtering
        makers.answer.filtering = False
        with makers.filtering():
            assert makers.answer.filtering
        assert not makers.answer.filtering
    assert makers.answer.filtering is before


def test_plugins_are_as_they_are_described() -> None:
    makers = recorded_makers.RecordedMakers()
    described = _plugin(
        depends_on=plugin_pb2.DEPENDENCY_NODE, normalization=plugin_pb2.NORMALIZATION_CUSTOM, score_copies=True
    )
    score = makers.make_score(described, "p")
    assert (score.name, score.depends_on, score.normalization, score.scores_copies) == (
        "Far",
        interfaces.Dependency.NODE,
        scorers.Normalization.CUSTOM,
        True,
    )
    assert makers.make_filter(described, "p").depends_on is interfaces.Dependency.NODE


def test_a_plugin_without_a_description_depends_on_all() -> None:
    makers = recorded_makers.RecordedMakers()
    score = makers.make_score(_plugin(), "p")
    assert (score.depends_on, score.normalization) == (interfaces.Dependency.CLUSTER, scorers.Normalization.NONE)
    assert makers.make_filter(_plugin(), "p").depends_on is interfaces.Dependency.CLUSTER
