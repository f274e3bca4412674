"""Which tests compare a file with recordings of kube-scheduler, which no search reaches: they are compressed, or long.

By rule: a pattern of paths, and the tests. tools/related/test_comparisons.py looks whether files without a rule state
messages of the recordings, and whether each recording has a test here.

Tests: tools/related/test_comparisons.py.
"""

import fnmatch
from collections.abc import Iterator

_CONFIGURATION = "tests/conformance/test_config_golden.py"
_DECISIONS = "tests/conformance/test_decisions.py"
_HINTS = "tests/conformance/test_hint_rows.py"
_GROUPS = "tests/conformance/test_group_claims.py"
_SELECTORS = "tests/conformance/test_selectors.py"
_METRICS = "tests/contract/test_serving_metrics.py"
_PAGES = "tests/contract/test_serving_http.py"

#: Patterns of files below `internal`, the tests that compare them, and what is compared.
RULES = (
    ("trireme/config/*", (_CONFIGURATION,), "files and flags, with defaults and messages"),
    ("trireme/plugins/*/args.py", (_CONFIGURATION,), "arguments, with defaults and messages"),
    ("trireme/plugin_kit/args_*", (_CONFIGURATION,), "arguments, with defaults and messages"),
    ("trireme/registry/*", (_CONFIGURATION, _DECISIONS), "plugins"),
    ("trireme/extenders/*", (_CONFIGURATION,), "messages"),
    ("trireme/framework/feature_gates*", (_CONFIGURATION,), "gates"),
    ("trireme/framework/*selectors.py", (_CONFIGURATION,), "messages"),
    ("trireme/frontend/running.py", (_CONFIGURATION,), "messages at the start and end"),
    ("trireme_kube/componentbase/cli/*", (_CONFIGURATION,), "flags"),
    ("trireme_kube/componentbase/logs/*", (_CONFIGURATION,), "flags"),
    ("trireme_kube/componentbase/tls/*", (_CONFIGURATION,), "messages"),
    ("trireme_kube/client/kubeconfig/*", (_CONFIGURATION,), "kubeconfigs, with messages"),
    ("trireme_kube/client/kubeconfig/server_url.py", (_SELECTORS,), "messages"),
    ("trireme_kube/apimachinery/quantity.py", ("tests/conformance/test_quantities_of_go.py", _SELECTORS), "quantities"),
    ("trireme_kube/apimachinery/semver.py", (_SELECTORS,), "messages"),
    ("trireme_kube/apimachinery/name_rules.py", (_DECISIONS,), "messages"),
    ("trireme_kube/apimachinery/*", (_CONFIGURATION,), "messages"),
    ("trireme/plugins/*/hints.py", (_HINTS,), "events and hints"),
    ("trireme/queueing/hints/*", (_HINTS,), "events and hints"),
    ("trireme/framework/cluster_event.py", (_HINTS,), "events"),
    ("trireme/plugins/dynamic_resources/*", (_GROUPS,), "claims of groups"),
    ("trireme/framework/fit_reasons.py", (_GROUPS,), "messages"),
    ("trireme/plugins/dynamic_resources/expressions.py", (_SELECTORS,), "selectors, with cost and messages"),
    ("trireme_kube/cel/*", (_SELECTORS,), "selectors, with cost and messages"),
    ("trireme/plugins/*", (_DECISIONS,), "verdicts, messages and scores"),
    ("trireme/plugin_kit/*", (_DECISIONS,), "verdicts, messages and scores"),
    ("trireme/evaluation/*", (_DECISIONS,), "verdicts, messages and scores"),
    ("trireme/framework/*", (_DECISIONS,), "verdicts, messages and scores"),
    ("trireme/*metric*", (_METRICS, "tests/contract/test_replica_metrics.py"), "metrics"),
    ("trireme/frontend/scheduler_instruments.py", (_METRICS,), "metrics"),
    ("trireme/config/telemetry_flags.py", (_METRICS,), "metrics"),
    ("trireme_kube/componentbase/metrics/*", (_METRICS, _PAGES), "metrics"),
    ("trireme/frontend/serving/*", (_PAGES,), "pages"),
    ("trireme_kube/componentbase/server/*", (_PAGES,), "pages"),
)


def comparing(path: str) -> Iterator[tuple[str, str]]:
    """The tests that compare a file, and what is compared."""
    for pattern, tests, compared in RULES:
        if fnmatch.fnmatch(path, f"internal/{pattern}"):
            yield from ((test, f"kube-scheduler's {compared}") for test in tests)
