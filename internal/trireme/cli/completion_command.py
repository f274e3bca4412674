"""`trireme completion SHELL`: the script that makes the shell complete commands, flags and names of pending pods.

Tests: tests/unit/cli/test_up.py.
"""

import argparse

from argcomplete import shell_integration

from trireme_kube.componentbase.cli import arguments

SHELLS = {
    "bash": "source <(trireme completion bash)  # in ~/.bashrc",
    "zsh": "source <(trireme completion zsh)  # in ~/.zshrc, after compinit",
    "fish": "trireme completion fish | source  # in ~/.config/fish/config.fish",
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme completion` to the commands."""
    parser = commands.add_parser(
        "completion",
        help="print the completion script of a shell",
        description=arguments.description_of(__doc__),
        epilog="\n".join(f"{shell}:  {line}" for shell, line in SHELLS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(SHELLS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the shell's completion script. Returns the exit code."""
    print(shell_integration.shellcode(["trireme"], shell=options.shell))
    return 0
