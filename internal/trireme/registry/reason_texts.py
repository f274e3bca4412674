"""The reasons of refusals, by the plugins that declare them: all codes, and a reason in words."""

from collections.abc import Mapping

from trireme.framework.reason_codes import ReasonCode
from trireme.registry.in_tree import IN_TREE


def reasons_of(plugin: str) -> Mapping[str, ReasonCode]:
    """The codes of an in-tree plugin's reasons; empty: it gives none, or is not in-tree."""
    spec = IN_TREE.plugins.get(plugin)
    if spec is None or spec.explain is None:
        return {}
    found: Mapping[str, ReasonCode] = spec.explain.load(spec.package)
    return found


def reason_text(plugin: str, code: str, parameters: Mapping[str, str]) -> str:
    """A reason in words; empty: the plugin has no text for it, or is not in-tree."""
    known = reasons_of(plugin).get(code)
    return known.text_of(parameters) if known is not None else ""
