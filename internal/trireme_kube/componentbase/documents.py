"""The pages of the documents that messages name, by their addresses: an installation has no copy of the documents.

Tests: tests/unit/componentbase/test_documents.py, tests/unit/project/test_document_links.py.
"""

import re
from typing import Final

#: Where the site is that `make site` builds.
ADDRESS: Final = "https://trireme.dev/docs"

NOTHING_IS_SCHEDULED: Final = f"{ADDRESS}/troubleshooting.html#nothing-is-scheduled"
MISSING_PERMISSIONS: Final = f"{ADDRESS}/troubleshooting.html#missing-permissions"
CLOCKS_THAT_DIFFER: Final = f"{ADDRESS}/troubleshooting.html#clocks-that-differ"
THE_FRONTEND_DOES_NOT_START: Final = f"{ADDRESS}/troubleshooting.html#the-frontend-does-not-start"
CERTIFICATE_EXPIRES: Final = f"{ADDRESS}/runbooks#triremecertificateexpires"
MISSED_WAKE_UPS: Final = f"{ADDRESS}/runbooks#trirememissedwakeups"
DECISIONS_DIFFER: Final = f"{ADDRESS}/runbooks#triremedecisionsdiffer"
CONTROL_PLANES: Final = f"{ADDRESS}/kubernetes-versions.html#control-planes"
UPGRADE: Final = f"{ADDRESS}/upgrade.html"
MOVING_A_NAMESPACE: Final = f"{ADDRESS}/tutorials/replacing.html#3-move-one-workload-or-a-namespace"
REPLACING: Final = f"{ADDRESS}/tutorials/replacing.html"
PROTOCOL: Final = f"{ADDRESS}/protocol.html"
PLUGIN_PROJECT: Final = f"{ADDRESS}/plugin-project.html"
EMBEDDED_CLUSTER: Final = f"{ADDRESS}/embedded-cluster.html"

_NAMED = re.compile(rf" (\({re.escape(ADDRESS)}/[^)\s]+\))")


def with_page(text: str, page: str) -> str:
    """The text with the pages that it names itself in brackets, each once and at the end, or else with `page`."""
    named = dict.fromkeys(_NAMED.findall(text))
    return " ".join((_NAMED.sub("", text), *(named or (f"({page})",))))
