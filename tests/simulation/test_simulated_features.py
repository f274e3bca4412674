"""The features of a run follow from its seed, or are given."""

import random

import pytest

from tests.simulation import simulated_features
from tests.simulation.simulation_plan import Options


def test_some_seeds_have_a_feature_and_some_do_not() -> None:
    """If this fails, what a feature hides is never simulated."""
    runs = [simulated_features.drawn(seed) for seed in range(60)]
    assert all(0 < sum(name in names for names in runs) < len(runs) for name in simulated_features.SHARES)
    random.seed(0)
    assert simulated_features.drawn(7) == runs[7]


def test_an_unknown_feature_is_an_error() -> None:
    assert simulated_features.checked(["plugins"]) == {"plugins"}
    with pytest.raises(ValueError, match="insights"):
        simulated_features.checked(["insights"])


@pytest.mark.parametrize("features", [None, (), ("plugins", "zones")])
def test_the_plan_of_a_failure_has_its_features(features: tuple[str, ...] | None) -> None:
    """If this fails, a failure that was shrunk is repeated in another cluster."""
    options = Options(1, features=features)
    assert Options.from_json(options.to_json()) == options
