"""Log lines of the start, before the process's own logging is set up.

A line is given as its severity letter, a space and the text, which for a structured one is the quoted message and
`key=value` pairs. It is written in klog's text format or as JSON, which log collectors for kube-scheduler parse.

Tests: tests/unit/config/test_start.py.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TextIO

import orjson

from trireme_kube.apimachinery.golang import quote
from trireme_kube.componentbase import clocks

_SOURCE = "config/commandline.py:1"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_BLOCK = r"<\n(?:\t[^\n]*\n)* >"
_VALUE = rf"{_QUOTED}|{_BLOCK}|\S+"
_STRUCTURED = re.compile(rf"({_QUOTED})((?: [A-Za-z]+=(?:{_VALUE}))*)", re.DOTALL)
_PAIR = re.compile(rf" ([A-Za-z]+)=({_VALUE})", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(found: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    code = found.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _SIMPLE.get(code, code)


def format_value(text: str) -> str:
    """A string as the value of a pair: quoted, or as a block if it has several lines."""
    if "\n" not in text:
        return quote(text)
    return "<\n" + "".join(f"\t{line}\n" for line in text.removesuffix("\n").split("\n")) + " >"


def unquote(text: str) -> object:
    """The value of a quoted string, a block, a boolean or a number in a log line."""
    if text.startswith("<\n"):
        return "\n".join(line.removeprefix("\t") for line in text.splitlines()[1:-1])
    if text.startswith('"'):
        return _ESCAPE.sub(_unescape, text[1:-1])
    if _INTEGER.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def parse_line(line: str) -> tuple[str, dict[str, object]]:
    """The message of a line without its severity, and its values."""
    found = _STRUCTURED.fullmatch(line)
    if found is None:
        return line, {}
    return str(unquote(found.group(1))), {name: unquote(text) for name, text in _PAIR.findall(found.group(2))}


@dataclass(slots=True)
class StartLog:
    """Writes lines to a stream."""

    stream: TextIO
    #: `text` or `json`; known once the flags are.
    format: str = "text"
    clock: Callable[[], float] = clocks.wall
    process: int = field(default_factory=os.getpid)

    def write(self, line: str) -> None:
        """Writes one line, such as `W something is odd`."""
        severity, _, text = line.partition(" ")
        now = self.clock()
        if self.format == "json":
            message, values = parse_line(text)
            record: dict[str, object] = {"ts": now * 1000, "caller": _SOURCE, "msg": message}
            if severity != "E":
                record["v"] = 0
            self.stream.write(orjson.dumps({**record, **values}).decode() + "\n")
            return
        moment = datetime.fromtimestamp(now).astimezone()
        source = _SOURCE.rpartition("/")[2]
        header = f"{severity}{moment:%m%d %H:%M:%S.%f} {self.process:>7} {source}"
        self.stream.write(f"{header}] {text}\n")
