"""Flags that a command and its subcommand both have."""

import argparse
from collections.abc import Iterator

import pytest

from trireme.cli import main


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.ArgumentParser]]:
    """Each parser with each of its subcommands'."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield parser, command
                yield from _commands(command)


def test_a_flag_counts_before_the_subcommand_that_has_it_too() -> None:
    """A flag given before the subcommand keeps its value: the subcommand's default does not overwrite it."""
    shared = [
        f"{command.prog} {action.option_strings}"
        for outer, command in _commands(main.make_parser())
        for action in command._actions
        if action.dest in {each.dest for each in outer._actions} - {"help"} and action.default is not argparse.SUPPRESS
    ]
    assert not shared


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kubeconfig", "x", "--master", "m", "check"],
        ["check", "--kubeconfig", "x", "--master", "m"],
        ["--kubeconfig", "other", "--master", "m", "check", "--kubeconfig", "x"],
    ],
    ids=["before", "after", "both"],
)
def test_shadow_check_reads_the_cluster_of_its_flags(arguments: list[str]) -> None:
    options = main.make_parser().parse_args(["shadow", *arguments])
    assert (options.kubeconfig, options.master) == ("x", "m")
