"""No pod of a group is ever lost: the frontend's state machine with groups."""

import os

from hypothesis import HealthCheck, settings

from tests.helpers.frontend_group_machine import GroupMachine

TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=int(os.environ.get("TRIREME_EXAMPLES", "40")) // 2,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
