"""The error of an object that cannot be decoded, from any encoding.

Tests: tests/unit/apimachinery/test_decode.py.
"""


class FieldError(ValueError):
    """A value that does not fit its field.

    Attributes: `path`, such as `spec.containers[0].resources.requests.cpu`, empty for the object itself; `problem`.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def within(self, parent: str) -> None:
        """Prefix the path with `parent`, the field that contains it."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{parent}{separator}{self.path}"

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem
