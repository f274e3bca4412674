"""The tutorials of plugins, written from one text and what differs between languages.

`make docs` runs this, and a test compares. Both sources are in docs/tutorials.
"""

import pathlib

import yaml

_FOLDER = pathlib.Path(__file__).parents[2] / "docs/tutorials"


def write() -> dict[pathlib.Path, str]:
    """The texts of the documents, by file."""
    languages = yaml.safe_load((_FOLDER / "languages.yaml").read_text())
    return {
        _FOLDER / f"plugin-{name}.md": _tutorial({"language": name, **values}) for name, values in languages.items()
    }


def _tutorial(values: dict[str, str | int]) -> str:
    """The text of a language's tutorial."""
    text = (_FOLDER / "plugin.template").read_text()
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", str(value))
    return text


if __name__ == "__main__":
    for path, written in write().items():
        path.write_text(written)
