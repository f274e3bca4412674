"""The Go modules of programs that checks use."""

import re

import pytest

from tools.programs import build_addons, build_cosign, build_jaeger, build_programs

MODULES = [
    build_programs.PROGRAMS,
    build_cosign.PROGRAMS,
    build_jaeger.PROGRAMS,
    build_addons.CERT_MANAGER,
    build_addons.METRICS_SERVER,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_go_mod_pins_the_module_of_each_package(module: build_programs.GoModule) -> None:
    """Also that a module can be looked at without being built: few machines build the rarer ones."""
    assert module.available() in (True, False)
    pinned = re.findall(r"^\t?(?:require )?(\S+) v\S+", (module.source / "go.mod").read_text(), re.MULTILINE)
    for package in module.packages:
        assert package.startswith(("./", *(f"{name}/" for name in pinned))), package
