"""What a forked phase of the end-to-end tests runs: the phase, with a log and an environment of its own.

The forker loads it, which knows none of the tests' other modules.
"""

import importlib
import json
import os
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the phase; `arguments`: its log, its environment as JSON, its module, its flags. Returns the exit code."""
    log, environment, module, *flags = arguments
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for output in (1, 2):
        os.dup2(descriptor, output)
    os.close(descriptor)
    os.environ.clear()
    os.environ.update(json.loads(environment))
    code: int = importlib.import_module(module).main(flags)
    return code
