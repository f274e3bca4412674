"""What Trireme makes of CEL selectors, in the form in which the oracle says what Kubernetes makes of them.

Run as a program it asks the oracle about the selectors of data/selectors.jsonl, and writes its answers beside them:

    python -m tests.conformance.selector_answers
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance import real_framework, selector_expressions
from trireme.plugins.dynamic_resources import devices, expressions
from trireme.v1 import resource_pb2
from trireme_kube.cel import values

ROWS = Path(__file__).parent / "data" / "selectors.jsonl"


def device(stated: Mapping[str, Any]) -> values.Map:
    """The device as selectors see it, from the fields that Go's has."""
    slice_ = resource_pb2.ResourceSlice()
    slice_.spec.driver = stated["Driver"]
    made = slice_.spec.devices.add(name="device", allow_multiple_allocations=stated["AllowMultipleAllocations"])
    for name, attribute in stated["Attributes"].items():
        for kind, value in attribute.items():
            if isinstance(value, list):
                getattr(made.attributes[name], kind).extend(value)
            else:
                setattr(made.attributes[name], kind, value)
    for name, capacity in stated["Capacity"].items():
        made.capacity[name].value.string = capacity["value"]
    return devices.read_slice(slice_, ()).devices[0].cel_values()


def answer(expression: str, asked: values.Map, known: expressions.CompiledExpressions) -> dict[str, Any]:
    """`matches` and `cost`, or a `compile` or a `runtime` error."""
    try:
        compiled = known.compiled(expression)
        return {"matches": known.matches(expression, asked), "cost": compiled.evaluate({"device": asked})[1]}
    except expressions.CompileError as error:
        return {"compile": str(error)}
    except expressions.DeviceExpressionError as error:
        return {"runtime": str(error)}


def comparable(said: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of the oracle without what does not matter: what an error has cost."""
    for kind in ("compile", "runtime"):
        if said.get(kind):
            return {kind: said[kind]}
    return {"matches": said["matches"], "cost": said["cost"]}


if __name__ == "__main__":
    asked_about = [json.loads(line)["expression"] for line in ROWS.read_text().splitlines()]
    answers = real_framework.selectors(selector_expressions.DEVICE, asked_about)
    with ROWS.open("w") as out:
        for text, go in zip(asked_about, answers, strict=True):
            out.write(json.dumps({"expression": text, **comparable(go)}, ensure_ascii=False) + "\n")
