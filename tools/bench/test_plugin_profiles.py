"""The comparison of two profiles of one scheduler: what is put beside what."""

from pathlib import Path

import pytest

from tools.bench import plugin_profiles
from tools.bench.driver import sides

BENCH = Path(__file__).resolve().parent


def wave(profile: str, pods_per_s: float, cpu_ms: float, plugin_cpu_ms: float = 0.0) -> plugin_profiles.Wave:
    """A wave."""
    return plugin_profiles.Wave(profile, pods_per_s, cpu_ms, plugin_cpu_ms, elsewhere_percent=10.0)


def test_waves_are_compared_within_their_pair() -> None:
    """If this fails, a machine that gets slower decides what a plugin costs."""
    waves = [
        wave(plugin_profiles.WITHOUT, 400, 1.0),
        wave(plugin_profiles.WITH, 380, 1.1, 0.2),
        # The other way round, on a machine half as fast by now.
        wave(plugin_profiles.WITH, 190, 2.2, 0.4),
        wave(plugin_profiles.WITHOUT, 200, 2.0),
        wave(plugin_profiles.WITHOUT, 100, 4.0),
        wave(plugin_profiles.WITH, 90, 4.4, 0.8),
    ]
    found = plugin_profiles.compare(waves)
    assert (found.without, found.with_plugin) == (200, 190)
    assert found.ratio == pytest.approx((0.95, 0.9, 0.95))
    assert found.cpu_ms == 2.0
    assert found.more_cpu_ms == pytest.approx((0.2, 0.1, 0.4))
    assert (found.plugin_cpu_ms, found.elsewhere_percent) == (0.4, 10.0)
    assert plugin_profiles.row("trireme-noop", found) == (
        "| trireme-noop | 200 | 190 | 0.95 (0.90 to 0.95) | 2.00 | +0.20 (+0.10 to +0.40) | 0.400 | 10 % |"
    )


@pytest.mark.parametrize("name", plugin_profiles.SIDES)
def test_the_profiles_differ_by_the_plugin_alone(name: str) -> None:
    """If this fails, pods with and without the plugin are scheduled by other plugins too."""
    (side,) = sides.select(sides.read((BENCH / "sides.yaml").read_text()), [name])
    changed = plugin_profiles.with_two_profiles(side)
    plugins = {point: {"enabled": [{"name": "Noop"}]} for point in ("filter", "score")}
    assert changed.configuration == {
        "profiles": [
            {"schedulerName": plugin_profiles.WITHOUT},
            {"schedulerName": plugin_profiles.WITH, "plugins": plugins},
        ]
    }
    assert sides.processes(side) == 2
    assert changed.files == side.files
