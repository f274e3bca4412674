"""The modules of the phases that a frontend has its forker import, by name: the frontend itself needs none of them.

Tests: tests/unit/project/test_start_imports.py, tests/contract/test_local_phases.py.
"""

from types import MappingProxyType

PROCESSES = MappingProxyType(
    {"filter": "trireme.filter.process", "score": "trireme.score.process", "bind": "trireme.bind.process"}
)
"""The module of each phase's process: its `main` runs it."""

TOGETHER = (("filter", "score"), ("bind",))
"""In the frontend's process one server has the phases that follow the snapshot, and another has bind."""

SHARED = (
    "aiohttp",
    "uvloop",
    "trireme.registry.filter_plugins",
    "trireme.registry.score_plugins",
    "trireme.registry.compared_plugins",
    "trireme.rpc.grpc_server",
    "trireme.evaluation.column_cache",
    "trireme.phases.answering",
    "trireme.phases.configuring",
    "trireme.phases.phase_metrics",
    "trireme.phases.phase_process",
    "trireme.phases.release_skew",
    "trireme.registry.canary_shares",
    "trireme.registry.remote_makers",
    "trireme.remote.remote_plugins",
    "trireme.remote.remote_results",
    "trireme.remote.comparison_queue",
    "trireme.evaluation.plugin_timer",
    "trireme.wire.domain_constraints",
    "trireme.wire.node_columns",
    "trireme.wire.phase_answers",
    "trireme.wire.profile_messages",
    "trireme.wire.status",
)
"""What at least two phases import. Importing it starts no thread and opens nothing."""
