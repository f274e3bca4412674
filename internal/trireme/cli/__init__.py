"""The `trireme` command: runs a scheduler on this machine, and shows the state of a running one."""

import os
import sys

# gRPC's core reads this while it is loaded. Its remarks on forks would be among what `trireme plugin run` shows.
if sys.argv[1:3] == ["plugin", "run"]:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
