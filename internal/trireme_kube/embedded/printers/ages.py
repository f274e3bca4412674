"""Ages of objects, as the AGE column of `kubectl get` has them."""

from trireme_kube.apimachinery import human_durations
from trireme_kube.embedded.api.timestamps import parse_timestamp


def age_text(moment: object, now: float) -> str:
    """How long ago an RFC 3339 time was."""
    if not isinstance(moment, str) or not moment:
        return "<unknown>"
    try:
        return human_durations.human_duration(now - parse_timestamp(moment))
    except ValueError:
        return "<unknown>"
