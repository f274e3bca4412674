"""Which texts in paths are names of API objects: by Kubernetes' rules, so that each name that kubectl shows has a page.

Nothing in a name is decoded, so a path has one spelling, and what it names is what rights are checked for.
"""

from trireme_kube.apimachinery import name_rules

_LONGEST_LABEL = 63


def is_name(text: str) -> bool:
    """Whether it may be the name of a pod, a node or a group: a DNS subdomain of at most 253 bytes.

    Its labels, between dots, may be longer than 63 bytes. Source: apimachinery's IsDNS1123Subdomain.
    """
    return not name_rules.subdomain_problems(text)


def is_namespace(text: str) -> bool:
    """Whether it may be the name of a namespace: a single label. Source: apimachinery's IsDNS1123Label."""
    return len(text) <= _LONGEST_LABEL and "." not in text and is_name(text)
