"""Flags that are declared once for argparse."""

import argparse
from dataclasses import dataclass
from typing import Annotated

import pytest

from trireme_kube.componentbase.cli import arguments
from trireme_kube.componentbase.cli.arguments import Argument


def _parse_even(text: str) -> int:
    if int(text) % 2:
        raise ValueError(f"{text!r} is odd")
    return int(text)


@dataclass(frozen=True, slots=True)
class _Flags:
    listen_on: Annotated[str, Argument("where")] = "here"
    level: Annotated[int, Argument("how much", letter="l")] = 1
    elect: Annotated[bool, Argument("with a value or without")] = True
    quiet: Annotated[bool, Argument("without a value", switch=True)] = False
    gates: Annotated[tuple[str, ...], Argument("one each time", repeated=True)] = ()
    size: Annotated[int, Argument("even", parse=_parse_even)] = 2


def _read(*texts: str) -> _Flags:
    parser = argparse.ArgumentParser()
    arguments.add(parser, _Flags)
    return arguments.read(_Flags, parser.parse_args(texts))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([], _Flags(), id="defaults"),
        pytest.param(["--listen-on=there", "-l", "3"], _Flags("there", 3), id="name-and-letter"),
        pytest.param(["--elect"], _Flags(elect=True), id="bare-boolean"),
        pytest.param(["--elect=F"], _Flags(elect=False), id="boolean"),
        pytest.param(["--quiet"], _Flags(quiet=True), id="switch"),
        pytest.param(["--gates=a", "--gates", "b,c"], _Flags(gates=("a", "b,c")), id="repeated"),
        pytest.param(["--size=4"], _Flags(size=4), id="parsed"),
    ],
)
def test_a_command_line_becomes_typed_values(texts: list[str], expected: _Flags) -> None:
    assert _read(*texts) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("--size=3", "argument --size: '3' is odd", id="rule"),
        pytest.param("--elect=maybe", "argument --elect: 'maybe' is neither true nor false", id="boolean"),
        pytest.param("--level=x", "argument -l/--level: invalid int value: 'x'", id="number"),
    ],
)
def test_a_wrong_value_is_named(text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _read(text)
    assert problem in capsys.readouterr().err
