"""No pod is ever lost where extenders decide and bind: the frontend's state machine with two of them.

They answer late, fail, or bind a pod and then fail to say so, as everybody's programs do.
"""

import os

from hypothesis import HealthCheck, settings

from tests.helpers.frontend_group_machine import GroupMachine
from tests.helpers.frontend_machine import FrontendMachine


class ExtenderMachine(FrontendMachine):
    """The same stimuli, and the same must hold."""

    EXTENDED = True


class GroupExtenderMachine(GroupMachine):
    """And with groups of pods, which extenders are asked about one by one."""

    EXTENDED = True


_SETTINGS = settings(
    max_examples=int(os.environ.get("TRIREME_EXAMPLES", "40")) // 2,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestExtenderMachine = ExtenderMachine.TestCase
TestExtenderMachine.settings = _SETTINGS
TestGroupExtenderMachine = GroupExtenderMachine.TestCase
TestGroupExtenderMachine.settings = _SETTINGS
