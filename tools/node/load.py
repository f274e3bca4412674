"""Pods that are created while something is done to the scheduler: all have to run, and each is bound once.

Tests: tools/node/test_installation.py.
"""

import itertools
import secrets
import threading

from tools.controlplane import launcher
from tools.node.installation import Installation, TrialFailedError

_INTERVAL_SECONDS = 3.0


class Load:
    """Creates a pod every few seconds, in a thread."""

    def __init__(self, installation: Installation, scheduler: str) -> None:
        self._installation = installation
        self._scheduler = scheduler
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._create)
        self._prefixes: list[str] = []
        self._error: Exception | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stopped.set()
        self._thread.join()
        if error is None:
            self._settle()

    def _create(self) -> None:
        for number in itertools.count():
            prefix = f"load-{secrets.token_hex(4)}-{number}"
            try:
                self._installation.start_pods(prefix, 1, self._scheduler)
            except launcher.ControlPlaneError as error:
                self._error = error
                return
            self._prefixes.append(prefix)
            if self._stopped.wait(_INTERVAL_SECONDS):
                return

    def _settle(self) -> None:
        """Wait until all of them run, then delete them. Raises: TrialFailedError: one was not bound once."""
        if self._error:
            raise self._error
        chosen = f"trial in ({','.join(self._prefixes)})"
        plane = self._installation.cluster.plane
        plane.kubectl("wait", "--for=condition=Ready", "pods", f"--selector={chosen}", "--timeout=300s", timeout=330)
        plane.kubectl("delete", "pods", f"--selector={chosen}", "--grace-period=1", "--wait=false")
        self._check_bindings()
        print(f"  {len(self._prefixes)} pods created meanwhile run, each bound once", flush=True)

    def _check_bindings(self) -> None:
        names = {f"{prefix}-0" for prefix in self._prefixes}
        bound = self._installation.bindings(names)
        if wrong := {name: bound[name] for name in names if bound[name] != 1}:
            raise TrialFailedError(f"not bound once: {wrong}")
