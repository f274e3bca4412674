"""`trireme … | head`: a reader that stops gets no traceback."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "command", [["config", "print"], ["version", "--client"], ["completion", "bash"]], ids=lambda command: command[0]
)
def test_a_closed_pipe_ends_quietly(command: list[str]) -> None:
    """The shell's pipelines are full of commands that read a few lines and leave."""
    program = [sys.executable, "-c", "import sys; from trireme.cli.main import main; sys.exit(main())", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
        assert process.wait(60) == 141
    assert complaint == b""
