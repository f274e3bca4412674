"""`trireme plugin verify` finds what is wrong with a plugin, and nothing that is not."""

import pathlib
from collections.abc import Sequence

import pytest
from broken import broken_plugins, reference_plugin

from trireme.plugin_verification import session, verification

# A plugin that hangs is found after this time.
_DEADLINE_SECONDS = 2.0


async def _verify(plugin: type[reference_plugin.ReferencePlugin], folder: pathlib.Path) -> verification.Verification:
    """The verification of a plugin."""
    async with reference_plugin.serving(plugin, folder) as address:
        deadline = getattr(plugin, "deadline_seconds", _DEADLINE_SECONDS)
        return await verification.verify(session.Settings(address, deadline_seconds=deadline))


def _numbers(results: Sequence[verification.Result]) -> dict[str, str]:
    """The numbers of the results, with what is wrong."""
    return {each.specification.number: each.text for each in results}


async def test_a_plugin_without_fault_conforms(tmp_path: pathlib.Path) -> None:
    """Broken, an author looks for a mistake that is not there."""
    done = await _verify(reference_plugin.ReferencePlugin, tmp_path)
    assert _numbers(done.violations) == {}
    assert _numbers(done.having(verification.Outcome.NOT_CHECKED)) == {}
    assert len(done.having(verification.Outcome.MET)) > 110


@pytest.mark.parametrize("plugin", broken_plugins.PLUGINS, ids=lambda plugin: plugin.__name__)
async def test_a_broken_plugin_violates_its_specification_alone(
    plugin: type[reference_plugin.ReferencePlugin], tmp_path: pathlib.Path
) -> None:
    """Broken, an author is not told what is wrong, or is told something else."""
    done = await _verify(plugin, tmp_path)
    assert set(_numbers(done.violations)) == {plugin.violates}, _numbers(done.violations)
    assert not done.conformant


def test_enough_specifications_have_a_plugin_that_violates_them() -> None:
    """Broken, specifications came without a plugin that shows what they find."""
    assert len({plugin.violates for plugin in broken_plugins.PLUGINS}) >= 60
