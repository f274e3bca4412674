"""Builds what clusters run beside Kubernetes: `python -m tools.programs.build_addons`.

cert-manager makes certificates, and metrics-server measures pods for autoscalers. Each has a Go module of its own, as
they use different versions of Kubernetes' libraries. Standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.programs.build_programs import GoModule

_FOLDER = Path(__file__).resolve().parent

CERT_MANAGER_PACKAGE = "github.com/cert-manager/cert-manager/cmd/controller"
"""Of the last version whose command is in the module that the proxy serves."""

CERT_MANAGER = GoModule(
    "cert-manager",
    _FOLDER / "cert-manager",
    (CERT_MANAGER_PACKAGE,),
    "the controller of cert-manager into build/cert-manager, some minutes",
)
METRICS_SERVER = GoModule(
    "metrics-server",
    _FOLDER / "metrics-server",
    ("sigs.k8s.io/metrics-server/cmd/metrics-server",),
    "metrics-server into build/metrics-server, some minutes",
)


if __name__ == "__main__":
    CERT_MANAGER.build()
    METRICS_SERVER.build()
    sys.exit(0)
