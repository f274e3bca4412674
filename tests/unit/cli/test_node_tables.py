"""Tables of refusals: like ones are one row, and `-o wide` shows each."""

from trireme.cli import display, node_tables
from trireme.v1 import insight_pb2, status_pb2


def taint_refusal(key: str, value: str, *nodes: str) -> insight_pb2.NodeRefusal:
    reason = status_pb2.Reason(code="untoleratedTaint", parameters={"key": key, "value": value, "effect": "NoSchedule"})
    status = status_pb2.Status(
        plugin="TaintToleration", messages=["node(s) had untolerated taint(s)"], reasons=[reason]
    )
    return insight_pb2.NodeRefusal(status=status, nodes=nodes)


FIFTY = [taint_refusal("pool", f"v{number}", f"n{number}") for number in range(50)]
OTHER = taint_refusal("gpu", "", "g0", "g1")


def rows(*, wide: bool) -> list[str]:
    return display.as_text(node_tables.refusals_table([*FIFTY, OTHER], wide), 200).splitlines()[1:]


def test_taints_of_one_key_are_one_row_with_a_count() -> None:
    first, second = rows(wide=False)
    reason = "node(s) had untolerated taint(s) (pool=*:NoSchedule, 50 values: v0, v1, v2 …)"
    assert first.split() == f"50 TaintToleration {reason} n0, n1, n2 …".split()
    reason = "node(s) had untolerated taint(s) (gpu:NoSchedule)"
    assert second.split() == f"2 TaintToleration {reason} g0, g1".split()


def test_each_taint_has_its_row_where_all_is_shown() -> None:
    assert len(rows(wide=True)) == 51
    assert "(pool=v7:NoSchedule)" in rows(wide=True)[7]
