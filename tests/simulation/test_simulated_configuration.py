"""Configurations that are drawn: the product takes the valid ones, and no other."""

import pathlib
import random

import pytest

from tests.simulation import simulated_configuration
from tests.simulation.simulated_certificates import Certificates
from tests.simulation.simulated_configuration import ConfigurationFiles, Documents, Draw
from trireme.config import commandline
from trireme_kube.embedded.api.resources import Object

# Only the plugin itself can say that it refuses its arguments, or that it is not there; and at a start every field may
# be another one than before.
FOUND_LATER = ("nobody answers", "refused", "fixed field")


def _plugin(name: str, tls: Object) -> Object:
    return {"name": name, "address": "127.5.0.1:7000", "extensionPoints": ["filter"], "tls": tls}


@pytest.fixture
def start(tmp_path: pathlib.Path) -> tuple[Draw, ConfigurationFiles, Documents]:
    """What draws configurations, files of a frontend, and the configuration outside of storms."""
    certificates = Certificates(tmp_path / "certificates")
    tls = certificates.holder("callers", "caller").settings
    phases = {phase: {"endpoints": ["127.2.0.1:7000"]} for phase in ("filter", "score", "bind")}
    base = simulated_configuration.base(phases, _plugin("ClosedNodes", tls))
    files = ConfigurationFiles(tmp_path / "frontend-0", certificates.holder("frontend-0", "frontend").settings)
    return Draw(random.Random(1), base, _plugin("ReservedNodes", tls)), files, base


def _is_taken(files: ConfigurationFiles, documents: Documents) -> bool:
    files.write_own(documents, 1.0)
    files.write_scheduler(documents, 1.0)
    arguments = [
        f"--trireme-config={files.own}",
        f"--config={files.scheduler}",
        "--master=http://127.0.0.1:1",
        "--secure-port=0",
    ]
    found: list[commandline.CompletedConfig] = []
    commandline.run(
        arguments, environment={}, build=lambda completed: found.append(completed) or 0, log=lambda line: None
    )
    return bool(found)


def test_valid_configurations_are_taken(start: tuple[Draw, ConfigurationFiles, Documents]) -> None:
    """If this fails, a simulation reloads nothing, for each configuration is refused."""
    draw, files, base = start
    assert _is_taken(files, base)
    drawn = [draw.valid() for _ in range(25)]
    assert [documents for documents in drawn if not _is_taken(files, documents)] == []
    assert len({str(documents) for documents in drawn}) == len(drawn)


def test_each_mistake_is_found(start: tuple[Draw, ConfigurationFiles, Documents]) -> None:
    """If this fails, a configuration that is to be refused is put in force, and shows nothing."""
    draw, files, _ = start
    drawn = [draw.invalid() for _ in range(50)]
    taken = {mistake for documents, mistake in drawn if _is_taken(files, documents)}
    assert taken == set(FOUND_LATER)
    assert len({mistake for _, mistake in drawn}) == 7


def test_certificates_follow_from_their_names(tmp_path: pathlib.Path) -> None:
    """If this fails, the same seed gives other files, and perhaps another run."""
    files = []
    for folder in ("one", "other"):
        certificates = Certificates(tmp_path / folder)
        certificates.add_authority()
        certificates.holder("filter-0", "filter").renew(certificates.newest, 5.0)
        files.append([path.read_bytes() for path in sorted((tmp_path / folder / "filter-0").iterdir())])
    assert files[0] == files[1]
    assert len(files[0]) == 3
