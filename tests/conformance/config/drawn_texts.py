"""Random configuration files: valid ones, and such as a person, a template or a broken disk would make of them.

`text` draws one from a source of chance alone: parts of a tree (`drawn_files`) are replaced, renamed or taken away, and
it is written as YAML or JSON in one of several hands. In some, single characters or lines are changed at last.
"""

import json
import string
from typing import Any

import yaml

from tests.conformance.config.drawn_files import UNKNOWN, Draw, Tree, odd, tree


def _places(node: Tree) -> list[tuple[Tree, Any]]:
    """All members of objects and lists: the container and the key."""
    found: list[tuple[Tree, Any]] = []
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(entries):
        found.append((node, key))
        found.extend(_places(value))
    return found


def spoil(draw: Draw, root: Tree) -> None:
    """Replaces, renames, adds or takes away one part."""
    container, key = draw.choice(_places(root))
    chance = draw.random()
    if chance < 0.55:
        container[key] = odd(draw)
    elif chance < 0.65:
        del container[key]
    elif isinstance(container, list):
        container.insert(draw.randint(0, len(container)), container[key] if draw.random() < 0.5 else odd(draw))
    elif chance < 0.85:
        container[draw.choice(UNKNOWN)] = odd(draw)
    else:
        value = container.pop(key)
        renamed = (key.upper(), key.lower(), key.title(), key + "s", key[:-1], f" {key}", draw.choice(UNKNOWN))
        container[draw.choice(renamed)] = value


VERSIONS: tuple[Tree, ...] = (
    *(f"kubescheduler.config.k8s.io/{name}" for name in ("v1beta1", "v1beta2", "v1beta3", "v1alpha1", "v2", "", "V1")),
    *(
        "v1",
        "",
        "kubescheduler.config.k8s.io",
        "a/b/c",
        "x/v1",
        "/",
        "/v1",
        None,
        1,
        [],
        "kubescheduler.config.k8s.io/v1 ",
    ),
)
KINDS: tuple[Tree, ...] = (
    *("", "Policy", "Pod", "kubeschedulerconfiguration", "NodeResourcesFitArgs", "NodeAffinityArgs", None, 1, {}, " "),
    *(f"{name}Args" for name in ("VolumeBinding", "DefaultPreemption", "InterPodAffinity", "DynamicResources")),
    *("List", "DeleteOptions", "WatchEvent", "Status", "KubeSchedulerConfigurationList"),
)


def mistype(draw: Draw, root: Tree) -> None:
    """Another version or kind, or none."""
    name, values = draw.choice((("apiVersion", VERSIONS), ("kind", KINDS)))
    if draw.random() < 0.2:
        root.pop(name, None)
    else:
        root[name] = draw.choice(values)


def written(draw: Draw, root: Tree) -> str:
    """The text of a tree."""
    chance = draw.random()
    if chance < 0.15:
        return json.dumps(root, ensure_ascii=draw.random() < 0.5)
    if chance < 0.3:
        return json.dumps(root, indent=draw.choice((0, 2, "\t")))
    flow = draw.choice((False, False, None, None, True))
    return str(
        yaml.safe_dump(
            root,
            sort_keys=draw.random() < 0.3,
            default_flow_style=flow,
            allow_unicode=True,
            width=draw.choice((40, 10**6)),
        )
    )


SCALARS = (
    *(
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "Y",
        "~",
        "null",
        "Null",
        "NULL",
        "0x1F",
        "0o17",
        "017",
        "1_000",
        "0b11",
        "1e3",
    ),
    *(".5", "1.", ".inf", "-.Inf", ".nan", "+5", "-0", "1:30", "2001-01-01", "2001-12-14t21:59:43.10-05:00", "!!str 5"),
    *(
        "!!int '5'",
        "!!float 5",
        "!!bool yes",
        "!!binary YQ==",
        "!foo x",
        "! 5",
        "'it''s'",
        '"\\x41"',
        '"\\u00e9"',
        "|\n  a",
    ),
    *(
        ">-\n  a\n  b",
        "&a x",
        "*a",
        "<<",
        "=",
        "@x",
        "`x",
        "%x",
        "- x",
        "? x",
        "a: b",
        "a #b",
        "#",
        "[a",
        "{a",
        "]",
        "}",
    ),
    *("[a, b,]", "{a: 1, a: 2}", "{<<: {a: 1}}", "99999999999999999999", "-9223372036854775808", "0xFFFFFFFFFFFFFFFF"),
    *("00", "08", "1__0", "_1", "0x_1", "1e400", "1E5", "True", "TRUE", "tRUE", "!!null x", "!!timestamp 2001-01-01"),
    *(
        '"a',
        "'a",
        '"\\q"',
        "!!set {a}",
        "!!omap [a: 1]",
        "0.1e-5",
        "+.inf",
        "1.5e",
        "0o8",
        "-0x1",
        "!!float 0x10",
        "...",
    ),
)


def scribble(draw: Draw, text: str) -> str:
    """Changes the text itself."""
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    chance = draw.random()
    if chance < 0.35 and ":" in lines[at]:
        lines[at] = f"{lines[at].partition(':')[0]}: {draw.choice(SCALARS)}"
    elif chance < 0.45:
        lines.insert(at, lines[at])
    elif chance < 0.5:
        del lines[at]
    elif chance < 0.58:
        lines[at] = draw.choice((" ", "  ", "\t", "- ", "# ", "", "? ", ": ", "!x ", "&a ", "%")) + lines[at]
    elif chance < 0.62:
        lines[at] = lines[at].lstrip()
    elif chance < 0.66:
        lines[at] += draw.choice((" ", "\t", " # x", "#x", ":", " :", ",", "\r", "\x00", "\x07", "\x85", "\u2028"))
    elif chance < 0.72:
        lines.insert(
            at, draw.choice(("---", "...", "--- # x", "%YAML 1.1", "%YAML 1.2", "%TAG ! x:", "", "# x", "\t", "--- |"))
        )
    elif chance < 0.76:
        return draw.choice(("\ufeff", "\n", "---\n", " ", "\t", "%YAML 1.2\n---\n", "# c\n")) + text
    elif chance < 0.8:
        return text.replace("\n", draw.choice(("\r\n", "\r")))
    elif chance < 0.84:
        return text + draw.choice(("---\n", "...\n", "---\nkind: x\n", "}", "x", "\n\n", "---\n[", "...\nx\n", "\x00"))
    elif chance < 0.88:
        return text[: draw.randrange(len(text) + 1)]
    elif chance < 0.94:
        place = draw.randrange(len(text) + 1)
        return text[:place] + draw.choice(string.printable) + text[place:]
    else:
        place = draw.randrange(len(text) + 1)
        return text[:place] + text[place + 1 :]
    return "\n".join(lines)


def text(draw: Draw) -> str:
    """The text of a configuration."""
    draw.carelessness = draw.choice((0.0, 0.0, 0.03, 0.1, 0.4))
    root = tree(draw)
    for _ in range(draw.choice((0, 0, 0, 0, 1, 1, 2))):
        spoil(draw, root)
    if draw.random() < 0.04:
        mistype(draw, root)
    made = written(draw, root)
    if draw.random() < 0.2:
        for _ in range(draw.choice((1, 1, 1, 2))):
            made = scribble(draw, made)
    return made
