"""Reads the arguments of a plugin as they travel: the JSON of the configuration API."""

from collections.abc import Mapping
from typing import Any

import orjson


def parse_args(name: str, text: bytes) -> Mapping[str, Any]:
    """The arguments of the plugin of this name; none where the text is empty. Raises: ValueError for no object."""
    if not text:
        return {}
    args = orjson.loads(text)
    if not isinstance(args, dict):
        raise ValueError(f"args of plugin {name}: must be an object")
    return args
