"""No pod is ever lost where extenders decide and bind: the frontend's state machine with two of them.

They answer late, fail, or bind a pod and then fail to say so, as everybody's programs do.
"""

import os

from hypothesis import HealthCheck, settings
from test_frontend_state_machine import FrontendMachine


class ExtenderMachine(FrontendMachine):
    """The same stimuli, and the same must hold."""

    EXTENDED = True


TestExtenderMachine = ExtenderMachine.TestCase
TestExtenderMachine.settings = settings(
    max_examples=int(os.environ.get("TRIREME_EXAMPLES", "40")) // 2,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
