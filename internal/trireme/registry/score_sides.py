"""What the score phase runs of the in-tree plugins.

All of it is loaded with this module: before a frontend comes, and in the forker once for all its forks.
"""

from collections.abc import Mapping

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import interfaces
from trireme.registry import sides

sides.preload(ExtensionPoint.SCORE)


def score_plugin(name: str, args_json: bytes, features: Mapping[str, bool]) -> interfaces.AnyScorePlugin | None:
    """The score plugin of this name, None where there is no such in-tree plugin. Raises: ValueError for bad args."""
    made: interfaces.AnyScorePlugin | None = sides.make(name, ExtensionPoint.SCORE, args_json, features)
    return made
