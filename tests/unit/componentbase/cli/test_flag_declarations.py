"""Flags follow from the fields of dataclasses: parsed, shown and stored by one declaration."""

from dataclasses import dataclass
from typing import Annotated

from trireme_kube.apimachinery.golang import Duration
from trireme_kube.componentbase.cli import flag_declarations, flags
from trireme_kube.componentbase.cli.flag_declarations import Declared, Group


@dataclass(frozen=True, slots=True)
class _Connection:
    qps: float = 1.0
    burst: int = 2


@dataclass(frozen=True, slots=True)
class _Configuration:
    connection: _Connection = _Connection()


@dataclass(frozen=True, slots=True)
class _Rates:
    qps: Annotated[float, Declared("kube-api-qps", "Requests a second.", sets="connection.qps")] = 50.0
    pause: Annotated[Duration, Declared("pause", lambda: "Made late.")] = Duration(0)


@dataclass(frozen=True, slots=True)
class _Options:
    rates: Annotated[_Rates, Group("rates")]


def _parsed(*arguments: str) -> flags.Parsed:
    return flags.parse(flag_declarations.flag_set_of(_Options), arguments)


def test_a_flag_has_the_type_default_and_help_of_its_declaration() -> None:
    (section,) = flag_declarations.flag_set_of(_Options).sections
    assert section.name == "rates"
    assert [(flag.name, flag.type.name, flag.default_text, flag.help) for flag in section.flags] == [
        ("kube-api-qps", "float32", "50", "Requests a second."),
        ("pause", "duration", "0s", "Made late."),
    ]


def test_a_command_line_becomes_typed_values() -> None:
    assert flag_declarations.values_of(_Options, _parsed("--pause=2s")) == _Options(_Rates(50.0, Duration.of(2)))


def test_only_flags_that_were_given_replace_the_configuration() -> None:
    before = _Configuration()
    assert flag_declarations.with_given(before, _Rates, _parsed("--pause=2s")) == before
    after = flag_declarations.with_given(before, _Rates, _parsed("--kube-api-qps=7"))
    assert after == _Configuration(_Connection(7.0, 2))
