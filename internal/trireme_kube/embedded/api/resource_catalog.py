"""The resources that one cluster serves: the table's, and those that CustomResourceDefinitions add.

Routing and discovery read it; `revision` tells them that it has changed.

Tests: tests/unit/embedded/controllers/test_custom_resources.py, tests/unit/embedded/endpoints/test_reads.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import RESOURCES, Resource, stored_as


class ResourceCatalog:
    """The resources of one cluster."""

    def __init__(self, *, optional: bool = False) -> None:
        """`optional` serves the resources that are off by default."""
        self._fixed = tuple(one for one in RESOURCES if optional or not one.optional)
        self._custom: dict[str, tuple[Resource, ...]] = {}
        self._by_path = {(one.group, one.version, one.plural): one for one in self._fixed}
        self._listeners: list[Callable[[Resource], None]] = []
        self.revision = 0
        """Grows with each change."""

    def resources(self) -> list[Resource]:
        """All served resources, in the order of the table, custom ones last."""
        return [*self._fixed, *(one for rows in self._custom.values() for one in rows)]

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource with these parts of a path."""
        return self._by_path.get((group, version, plural))

    def custom(self, definition: str) -> tuple[Resource, ...]:
        """The resources of the definition of that name, one for each served version."""
        return self._custom.get(definition, ())

    def fixed_group(self, group: str) -> bool:
        """Whether the table has resources of that group."""
        return any(one.group == group for one in self._fixed)

    def stored_in_namespaces(self) -> list[Resource]:
        """The resources in which a namespace's objects are stored."""
        return list(dict.fromkeys(stored_as(one) for one in self.resources() if one.namespaced))

    def listen(self, listener: Callable[[Resource], None]) -> None:
        """Call `listener` with each resource that is no longer served."""
        self._listeners.append(listener)

    def replace(self, definition: str, rows: tuple[Resource, ...]) -> None:
        """Serve these resources for a definition instead of the previous ones; an empty sequence removes them."""
        before = self._custom.pop(definition, ())
        for one in before:
            del self._by_path[(one.group, one.version, one.plural)]
        if rows:
            self._custom[definition] = rows
            self._by_path.update({(one.group, one.version, one.plural): one for one in rows})
        self.revision += 1
        for one in before:
            for listener in self._listeners:
                listener(one)
