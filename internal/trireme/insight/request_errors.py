"""Why a path or query makes no request: the texts of the HTTP API, the console and the page of simulations.

Also change: docs/protocol.md.

Tests: tests/unit/insight/http_api/test_requests.py.
"""

from collections.abc import Iterable


class BadRequest(ValueError):
    """The path or query makes no request; the message names what to change."""


def unknown_name(known: Iterable[str] = ()) -> BadRequest:
    """The query has a name that is none of these."""
    names = ", ".join(sorted(known))
    return BadRequest(f"the query has an unknown name; known {f'are {names} and' if names else 'is'} pretty")


def repeated(name: str) -> BadRequest:
    """The query has the name more than once."""
    return BadRequest(f"{name}: the query has it more than once")


def wrong_value(name: str, wanted: str) -> BadRequest:
    """The value of the name is not what is wanted."""
    return BadRequest(f"{name}: the value in the query is no {wanted}")
