"""The trial runs the commands that the page has, in its order."""

from tools.node import first_hour
from tools.node.first_hour import Block


def test_blocks_belong_to_the_section_before_them() -> None:
    page = """# T

```yaml
# values.yaml
a: 1
```

## 1. One

```sh run
x
```

```text
no
```
## 2. Two
```sh cluster
y
z
```
"""
    assert first_hour.blocks(page) == [
        Block(0, "yaml", "# values.yaml\na: 1\n"),
        Block(1, "sh run", "x\n"),
        Block(1, "text", "no\n"),
        Block(2, "sh cluster", "y\nz\n"),
    ]


def test_the_page_has_the_commands_that_the_trial_expects() -> None:
    """A command that is added, moved or removed has to be run, or left out, by first_hour."""
    commands: dict[int, list[str]] = {}
    for block in first_hour.blocks(first_hour.PAGE.read_text()):
        if block.mark.startswith("sh "):
            commands.setdefault(block.section, []).append(block.text)
    assert {section: len(found) for section, found in commands.items()} == {0: 1, 1: 1, 2: 1, 3: 2, 4: 3, 5: 2}
    assert commands[2][0].splitlines()[-1].endswith("8080")
    assert commands[3][1].count('"schedulerName":"trireme"') == 1
    assert commands[4][1].startswith("mv /etc/kubernetes/manifests/")
    assert commands[5][0].startswith("mv /etc/kubernetes/kube-scheduler.yaml.saved")
