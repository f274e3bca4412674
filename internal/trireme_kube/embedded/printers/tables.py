"""Objects as tables, the form in which `kubectl get` requests them.

The server chooses the columns and fills the cells; this module builds the meta.k8s.io/v1 Table around the columns that
`columns` defines for each resource.
"""

from collections.abc import Sequence
from typing import Any

from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.printers.columns import Column, columns_of
from trireme_kube.embedded.storage.store import Record

_CONDITIONS = {
    "Succeeded": {"reason": "Succeeded", "message": "The pod has completed successfully."},
    "Failed": {"reason": "Failed", "message": "The pod failed."},
}


def _column_definition(column: Column) -> Object:
    """Return a Table's definition of a column; wide ones have priority 1."""
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }


def _table_row(resource: Resource, columns: Sequence[Column], record: Record, now: float, include: str) -> Object:
    """Return a Table's row of an object; `include` says whether it has the object, its metadata or neither."""
    obj = record.object
    cells: list[Any] = [column.cell(obj, now) for column in columns]
    row: Object = {"cells": cells}
    phase = (obj.get("status") or {}).get("phase")
    if resource.key == "pods" and phase in _CONDITIONS:
        row["conditions"] = [{"type": "Completed", "status": "True", **_CONDITIONS[phase]}]
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        row["object"] = {"kind": kind, "apiVersion": version, "metadata": obj["metadata"]}
    return row


def table(
    resource: Resource,
    records: Sequence[Record],
    now: float,
    include: str,
    metadata: Object,
    *,
    headers: bool = True,
) -> Object:
    """The Table of some records; in a watch only the first one has `headers`."""
    columns = columns_of(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_column_definition(column) for column in columns] if headers else None,
        "rows": [_table_row(resource, columns, record, now, include) for record in records],
    }
