"""The logging flags of filter, score and bind."""

import argparse

import pytest

from trireme_kube.componentbase.cli import arguments, log_flags
from trireme_kube.componentbase.logs import klog


def _parse(*texts: str) -> klog.LogOptions:
    parser = argparse.ArgumentParser()
    arguments.add(parser, log_flags.LogFlags)
    return arguments.read(log_flags.LogFlags, parser.parse_args(texts)).options("trireme")


def test_logging_follows_the_flags() -> None:
    """A phase would not log as it is told to."""
    said = _parse("--logging-format=json", "-v=3", "--vmodule=binder=5,follow*=2,")
    assert said == klog.LogOptions("json", 3, (("binder", 5), ("follow*", 2)), packages=("trireme",))
    assert _parse() == klog.LogOptions(packages=("trireme",))


@pytest.mark.parametrize("text", ["binder", "=3", "binder=", "binder=x", "binder=-1", "a=1,b"])
def test_a_pattern_without_a_level(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake would be taken for no wish at all."""
    with pytest.raises(SystemExit) as ended:
        _parse(f"--vmodule={text}")
    assert ended.value.code == 2
    assert "is not PATTERN=N" in capsys.readouterr().err
