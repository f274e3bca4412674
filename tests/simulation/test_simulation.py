"""Short simulations of the whole system: nothing is violated, and the same seed gives the same run."""

import os
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SIMULATE = (sys.executable, "-m", "tests.simulation.simulate")


# The same, with objects that nobody uses all over the memory, so that whatever comes later has other addresses.
WITH_BALLAST = (
    sys.executable,
    "-c",
    "import builtins, runpy\n"
    "builtins.ballast = [bytearray(number % 601) for number in range(300_000)][::3]\n"
    "runpy.run_module('tests.simulation.simulate', run_name='__main__')",
)


def _simulate(
    seed: int, hours: float, hash_seed: str, *more: str, run: tuple[str, ...] = SIMULATE, **environment: str
) -> list[str]:
    """The lines that a simulation prints."""
    command = [*run, f"--seed={seed}", f"--hours={hours}", *more]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}, {hours} hours:\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_seed_gives_the_same_run(tmp_path: pathlib.Path) -> None:
    """If this fails, a failure cannot be repeated: something depends on hashes, on addresses or on the real clock.

    Each line of a trace has the checksum of what was written.
    """
    trace = tmp_path / "trace"
    assert _simulate(1002, 0.03, "1", f"--trace={trace}", "--features=plugins,insight")[-1].startswith("sha256 ")
    same = [f"{len(trace.read_text(encoding='utf-8').splitlines()) - 1} lines are the same"]
    assert _simulate(1002, 0.03, "2", f"--replay={trace}", PYTHONMALLOC="malloc") == same
    assert _simulate(1002, 0.03, "3", f"--replay={trace}", run=WITH_BALLAST) == same


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_replay_shows_the_first_difference(tmp_path: pathlib.Path) -> None:
    """If this fails, one has to look for what two machines or versions do differently."""
    trace = tmp_path / "trace"
    _simulate(3, 0.003, "0", f"--trace={trace}")
    lines = trace.read_text(encoding="utf-8").splitlines()
    lines[700] += " changed"
    trace.write_text("\n".join([*lines, ""]), encoding="utf-8")
    command = [*SIMULATE, f"--replay={trace}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "line 701 differs" in done.stdout
    assert f"- {lines[700]}\n+ {lines[700].removesuffix(' changed')}\n" in done.stdout


# One is new in each run. It is named at the end of all tests, and in the message of a failure.
SEEDS = (7, 201, 303, random.SystemRandom().randrange(1000, 1_000_000))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_nothing_is_violated(number: int, record_property: Callable[[str, object], None]) -> None:
    """If this fails, `make simulate` with the seed that the message has repeats it."""
    seed = SEEDS[number]
    record_property("seed of a simulation", seed)
    assert _simulate(seed, 0.1, "0")[-1].startswith("sha256 ")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_are_simulated_until_it_is_interrupted() -> None:
    """If this fails, `make simulate-long` does not end well."""
    command = [*SIMULATE, "--endless", "--seed=11", "--hours=0.002"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert [line.partition(":")[0] for line in lines] == ["seed 11", "seed 12"]
    assert " seeds, 0.0" in rest
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_differ() -> None:
    """If this fails, the seed decides nothing."""
    assert _simulate(4, 0.01, "0")[-1] != _simulate(5, 0.01, "0")[-1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_write_that_was_given_up_does_not_arrive_later() -> None:
    """If this fails, a node is overcommitted when a leader is replaced while a connection stalls."""
    command = [sys.executable, "-m", "tests.simulation.late_write_scenario"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
