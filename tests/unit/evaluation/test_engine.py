"""Engine: what it drops, and which of several keeps what it has computed."""

import gc

from tests.helpers import at_once, phase_calls
from tests.helpers.phase_calls import PROFILE
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation import engine, filter_engine, score_engine
from trireme.evaluation.filtering import filter_chain
from trireme.evaluation.scoring import score_chain
from trireme.plugins.image_locality import score as image_locality
from trireme.plugins.node_affinity import filter as node_affinity


def _made() -> tuple[SnapshotBuilder, engine.Engine]:
    """An engine that has evaluated two classes."""
    builder = SnapshotBuilder()
    builder.set_node("n0")
    scorer = image_locality.ImageLocality()
    made = engine.Engine(
        builder.snap,
        filter_engine.FilterProfiles({PROFILE: filter_chain.FilterChain([node_affinity.NodeAffinityFilter()])}),
        score_engine.ScoreProfiles({PROFILE: score_chain.ScoreChain({scorer.name: 1}, [scorer])}),
    )
    for number in (1, 2):
        builder.add_class(number, pod_of())
        cycle = phase_calls.cycle(builder, number)
        at_once.answer(made.filter.evaluate(cycle))
        at_once.answer(made.score.prepare(cycle))
    return builder, made


def _known(builder: SnapshotBuilder, made: engine.Engine) -> list[tuple[bool, bool]]:
    """Of each class whether it is cached for Filter, and for Score."""
    return [
        (
            (PROFILE, number) in made.filter.evaluator.cached_classes,
            made.score.evaluator.knows(PROFILE, builder.snap.classes[number]),
        )
        for number in (1, 2)
    ]


def test_a_class_that_is_dropped_is_computed_again_and_no_other() -> None:
    builder, made = _made()
    made.drop(PROFILE, 1)
    assert _known(builder, made) == [(False, False), (True, True)]
    made.drop_all()
    assert _known(builder, made) == [(False, False)] * 2


def test_times_are_not_measured() -> None:
    builder, made = _made()
    assert at_once.answer(made.filter.filter(phase_calls.cycle(builder, 1))).timings == ()


def test_only_the_engine_that_evaluated_last_keeps_what_it_has_computed() -> None:
    last = engine.LastEvaluating()
    (first_builder, first), (second_builder, second) = _made(), _made()
    last.hold(first)
    last.hold(first)
    assert _known(first_builder, first) == [(True, True)] * 2
    last.hold(second)
    assert _known(first_builder, first) == [(False, False)] * 2
    last.hold(first)
    assert _known(second_builder, second) == [(False, False)] * 2


def test_an_engine_that_is_gone_has_nothing_to_drop() -> None:
    last = engine.LastEvaluating()
    last.hold(_made()[1])
    gc.collect()
    builder, made = _made()
    last.hold(made)
    assert _known(builder, made) == [(True, True)] * 2
