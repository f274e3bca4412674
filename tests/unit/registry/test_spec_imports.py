"""What loading the registry imports."""

import subprocess
import sys


def test_the_specs_load_nothing_of_the_plugins() -> None:
    """The frontend and the command would load what filter and score run."""
    script = "import sys, trireme.registry.in_tree; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    loaded = set(ran.stdout.split())
    assert not loaded & {"numpy", "grpc", "google.protobuf", "trireme.registry.implementations"}
    own = {name for name in loaded if name.startswith("trireme.plugins.") and name.count(".") > 2}
    assert {name.rpartition(".")[2] for name in own} == {"spec"}
