"""What the command line asks of the in-tree plugins: the texts for the reasons of their refusals.

Tests: tests/unit/registry/test_registry.py.
"""

from collections.abc import Mapping

from trireme.registry.in_tree import IN_TREE


def reason_text(plugin: str, code: str, parameters: Mapping[str, str]) -> str:
    """A reason in words; empty: the plugin has no text for it, or is not in-tree."""
    spec = IN_TREE.plugins.get(plugin)
    if spec is None or spec.explain is None:
        return ""
    texts: Mapping[str, str] = spec.explain.load(spec.package)
    return texts[code].format(**parameters) if code in texts else ""
