"""Numbers on command lines: whole, and in a range.

Tests: tests/unit/cli/test_simulate_command.py.
"""

import argparse
from collections.abc import Callable

LARGEST_PORT = 65535


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make the parser of a whole number in this range, for argparse, which names the flag of an invalid one."""
    valid_range = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse_whole_number(text: str) -> int:
        """The number. Raises: ArgumentTypeError."""
        number = int(text) if text.isdecimal() else -1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {valid_range}")
        return number

    return parse_whole_number
