"""How the check of a specification ends, other than by the requirement being met."""

from trireme.plugin_verification import exchanges


class Violation(Exception):
    """The plugin does not meet the requirement. The text says what was expected and what came."""

    def __init__(self, text: str, exchange: exchanges.Exchange | None = None) -> None:
        super().__init__(text)
        self.exchange = exchange


class NotApplicable(Exception):
    """The requirement concerns nothing that the plugin declares, or that it answers here. The text says why."""


class NotChecked(Exception):
    """The requirement cannot be checked, because another one is not met. The text says what is missing."""
