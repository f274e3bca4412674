"""Makes the processes that serve the contract, and benches for plugins, available to the tests of all modules."""

from contract_services import running
from plugin_bench import bench
from sdk_hosts import stack

__all__ = ["bench", "running", "stack"]
