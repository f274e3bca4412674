"""Makes bind, the processes that serve the contract, and benches for plugins available to the tests of all modules."""

from tests.contract.bind_cluster import configured
from tests.contract.contract_services import running
from tests.contract.plugin_bench import bench
from tests.contract.sdk_hosts import stack

__all__ = ["bench", "configured", "running", "stack"]
