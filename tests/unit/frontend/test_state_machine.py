"""No pod is ever lost: the frontend's state machine, without groups and extenders."""

import os

from hypothesis import HealthCheck, settings

from tests.helpers.frontend_machine import FrontendMachine

TestFrontendMachine = FrontendMachine.TestCase
TestFrontendMachine.settings = settings(
    # A quick run as one of many tests; `TRIREME_EXAMPLES=2000` looks for what is rare.
    max_examples=int(os.environ.get("TRIREME_EXAMPLES", "40")),
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
