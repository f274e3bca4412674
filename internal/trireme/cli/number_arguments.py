"""Numbers on command lines: whole, and in a range."""

import argparse
from collections.abc import Callable

LARGEST_PORT = 65535


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """What reads a number of at least `least`, and of at most `most`; argparse names the flag of one that is not."""
    valid_range = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        number = int(text) if text.isdecimal() else -1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {valid_range}")
        return number

    return read
