"""Makes the processes that serve the contract, and a bench for plugins, available to the tests of all modules."""

from contract_services import running
from plugin_bench import bench

__all__ = ["bench", "running"]
