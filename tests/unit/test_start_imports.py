"""What a start does not load: each of these takes longer than what it is for."""

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
