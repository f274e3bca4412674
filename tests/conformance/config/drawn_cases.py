"""Random cases of configuration: a file, the command line that gives it, and what else it may name.

In most the configuration is what varies; in some feature gates are set or an older version is emulated, and in some it
is the kubeconfig that varies.
"""

from tests.conformance.config.drawn_files import KIND, VERSION, Case, Draw
from tests.conformance.config.drawn_flags import FILES_OF_A_CASE, gates
from tests.conformance.config.drawn_kubeconfigs import kubeconfig
from tests.conformance.config.drawn_texts import text

BASE = ("--config", "{FILE}", "--write-config-to", "{OUT}", "--secure-port", "0")
MASTER = ("--master", "http://127.0.0.1:1")
EMULATED = ("1.34", "1.35", "1.36", "1.37", "1.33", "kube=1.36")
#: How many of the cases are of each kind, in order.
WITH_GATES, WITH_KUBECONFIG = 0.12, 0.15


def case(draw: Draw, name: str) -> Case:
    """A case."""
    chance = draw.random()
    if chance < WITH_KUBECONFIG:
        return _connected(draw, name)
    flags = [*BASE, *MASTER]
    files = {"config.yaml": text(draw)}
    if chance > 1 - WITH_GATES:
        flags += (
            ["--feature-gates", gates(draw)] if draw.random() < 0.7 else [f"--emulated-version={draw.choice(EMULATED)}"]
        )
    return {"name": name, "files": files, "flags": flags}


def _connected(draw: Draw, name: str) -> Case:
    draw.carelessness = draw.choice((0.0, 0.1, 0.4))
    configuration = f"apiVersion: {VERSION}\nkind: {KIND}\nclientConnection: {{kubeconfig: '{{DIR}}/kubeconfig'}}\n"
    files = {**FILES_OF_A_CASE, "config.yaml": configuration, "kubeconfig": kubeconfig(draw)}
    return {"name": name, "files": files, "flags": [*BASE, *(MASTER if draw.random() < 0.1 else ())]}
