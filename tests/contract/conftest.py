"""Makes the processes that serve the contract available to the tests of all modules."""

from contract_services import running

__all__ = ["running"]
