"""How the check of a specification ends, other than by the requirement being met.

Tests: tests/unit/plugin_verification/test_stream_specifications.py.
"""

from collections.abc import Sequence

from trireme.plugin_verification import exchanges
from trireme.plugin_verification.sentences import Sentence


class Violation(Exception):
    """The plugin does not meet the requirement. The text says what was expected and what came.

    `sentences` are those of the requirement that this plugin does not meet; empty: all of them.
    """

    def __init__(
        self,
        text: str,
        exchange: exchanges.Exchange | None = None,
        sentences: Sequence[Sentence] = (),
    ) -> None:
        super().__init__(text)
        self.exchange = exchange
        self.sentences = tuple(sentences)


class NotApplicable(Exception):
    """The requirement concerns nothing that the plugin declares, or that it answers here. The text says why."""


class NotChecked(Exception):
    """The requirement cannot be checked, because another one is not met. The text says what is missing."""
