"""What a start loads and what it does not: loading modules is most of what a small process's start takes."""

import subprocess
import sys

import pytest

# Needed by who has a credential plugin, an identity provider or a service account, and nobody else.
_KUBERNETES = ("kubernetes", "pydantic", "requests", "urllib3", "oauthlib")
# Needed where a device class or a claim selects devices by an expression.
_CEL = ("re2", "trireme_kube.cel.compiler")
_TRACING = ("opentelemetry",)


@pytest.mark.parametrize(
    ("loaded", "unneeded"),
    [
        ("trireme.frontend.running", (*_KUBERNETES, *_CEL, *_TRACING)),
        ("trireme.filter.process", (*_KUBERNETES, *_CEL, *_TRACING)),
        ("trireme.bind.process", _KUBERNETES),
        ("trireme.frontend.process", ("numpy", "grpc", "aiohttp", "asyncio")),
        ("trireme.rpc.forker", ("numpy", "grpc", "aiohttp", "asyncio")),
        ("trireme.config.commandline", ("numpy", "grpc", "google.protobuf")),
    ],
    ids=["frontend", "filter", "bind", "what-hears-signals", "what-forks", "what-reads-the-configuration"],
)
def test_modules_that_a_start_does_not_load(loaded: str, unneeded: tuple[str, ...]) -> None:
    """If this fails, each process takes a tenth of a second longer to start, for nothing that it uses."""
    script = f"import sys, {loaded}; print(*[name for name in {unneeded!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == []


def _loaded(*scripts: str) -> list[set[str]]:
    """The modules that are loaded after each of the scripts, which run side by side."""
    whole = [f"{script}\nimport sys; print(*sys.modules)" for script in scripts]
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for script in whole]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert not any(process.returncode for process in running)
    return [set(names.split()) for names in said]


def test_the_forker_loads_what_all_its_forks_need() -> None:
    """If this fails, filter and score load alike what one process could, or all wait for what none of them uses."""
    names = "from trireme.frontend.phase_modules import SHARED"
    shared = f"import importlib; {names}; [*map(importlib.import_module, SHARED)]"
    phases = (f"import trireme.{name}.process" for name in ("filter", "score", "bind"))
    forker, of_filter, of_score, of_bind = _loaded(shared, *phases)
    assert of_filter & of_score <= forker
    own = {"trireme.frontend", "trireme.frontend.phase_modules"}  # what it uses itself
    assert forker - own <= of_filter | of_score | of_bind
