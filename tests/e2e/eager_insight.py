"""Insight that makes decisions again at once, five at a time."""

import sys

from trireme.insight import process, self_check

self_check.PERIOD_SECONDS = 0.0
self_check.MAX_DECISIONS = 5
sys.exit(process.main())
