"""The defects that simulations have to find, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DEFECTS: dict[str, Defect] = {}


@dataclass(frozen=True, slots=True)
class Defect:
    """A function that puts a defect into the product, and how to find it soonest."""

    name: str
    #: What is wrong, in a sentence.
    text: str
    put_into_product: Callable[[], None]
    #: What the check says that finds it.
    found_by: str
    #: The kinds of faults that show it.
    faults: tuple[str, ...]
    #: The seed to begin with, the number of nodes, and the load.
    seed: int
    nodes: int
    load: str
    #: Only a comparison with kube-scheduler's own framework shows it.
    needs_oracle: bool
    #: What the cluster has, of `simulated_features`.
    features: tuple[str, ...]


def defect(
    *faults: str,
    found_by: str,
    seed: int = 1,
    nodes: int = 12,
    load: str = "",
    needs_oracle: bool = False,
    features: tuple[str, ...] = ("plugins",),
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function; its name is the defect's, with hyphens, and its docstring says what is wrong."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        name = function.__name__.replace("_", "-")
        text = " ".join((function.__doc__ or "").split())
        assert name not in DEFECTS
        DEFECTS[name] = Defect(name, text, function, found_by, faults, seed, nodes, load, needs_oracle, features)
        return function

    return register
