"""A test that hangs ends at its timeout, and those after it run."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[3]

HANGS = {
    "a task that nobody awaits spins": """
        async def spin():
            while True:
                await asyncio.sleep(0)

        task = asyncio.ensure_future(spin())
        await asyncio.Event().wait()
    """,
    "a callback calls itself": """
        def again():
            asyncio.get_running_loop().call_soon(again)

        again()
        await asyncio.Event().wait()
    """,
    "a task is not cancelled": """
        async def stay():
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        await asyncio.ensure_future(stay())
    """,
    "a failed test's fixture waits": """
        assert not fixture
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
def test_a_hang_ends_at_the_timeout(hang: str, tmp_path: pathlib.Path) -> None:
    """An event loop keeps what is raised in a task or a callback: the test would never end."""
    module = f"""\
import asyncio, contextlib, pytest

@pytest.fixture
async def fixture():
    yield True
    await asyncio.Event().wait()

async def test_that_hangs({"fixture" if "fixture" in hang else ""}):
{textwrap.indent(textwrap.dedent(hang), "    ")}

async def test_after_it():
    await asyncio.sleep(0)
"""
    (tmp_path / "test_module.py").write_text(module)
    options = ("-c", "/dev/null", "-o", "asyncio_mode=auto", "-p", "no:randomly", "-p", "no:cacheprovider", "-q")
    command = (sys.executable, "-m", "pytest", *options, "-p", "tests.helpers.timeouts", "--timeout", "0.3", tmp_path)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert "1 failed, 1 passed" in done.stdout
    assert "from pytest-timeout" in done.stdout
