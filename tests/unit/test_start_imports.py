"""What a start loads and what it does not: loading modules is most of what a small process's start takes."""

import subprocess
import sys

import pytest

# Needed by who has a credential plugin, an identity provider or a service account, and nobody else.
_KUBERNETES = ("kubernetes", "pydantic", "requests", "urllib3", "oauthlib")


@pytest.mark.parametrize(
    ("loaded", "unneeded"),
    [
        ("trireme.frontend.running", _KUBERNETES),
        ("trireme.bind.process", _KUBERNETES),
        ("trireme.frontend.process", ("numpy", "grpc", "aiohttp", "asyncio")),
        ("trireme.replica.nursery", ("numpy", "grpc", "aiohttp", "asyncio")),
    ],
    ids=["frontend", "bind", "what-hears-signals", "what-forks"],
)
def test_what_a_start_does_not_load(loaded: str, unneeded: tuple[str, ...]) -> None:
    """If this fails, each process takes a tenth of a second longer to start, for nothing that it uses."""
    script = f"import sys, {loaded}; print(*[name for name in {unneeded!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == []


def _loaded(script: str) -> set[str]:
    """The modules that are loaded after a script."""
    script = f"{script}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    return set(ran.stdout.split())


def test_what_is_loaded_before_the_fork_is_what_all_load() -> None:
    """If this fails, the frontend loads what it has no use for, or filter and score load alike what one could."""
    frontend = _loaded("import trireme.frontend.process, trireme.frontend.running, trireme.frontend.starting")
    before = _loaded("from trireme.replica import nursery; nursery.load(nursery.OF_ALL)")
    forked = _loaded("from trireme.replica import nursery; nursery.load(nursery.OF_ALL + nursery.OF_PHASES)")
    assert before <= frontend
    assert _loaded("import trireme.filter.process") & _loaded("import trireme.score.process") <= forked
