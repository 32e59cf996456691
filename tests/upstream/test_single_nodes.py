"""Guards that callers who ask each node by itself see the nodes of now."""

from typing import Any

from actors.upstream.single_nodes import OfEachNode, SingleNodes


def test_each_look_has_the_nodes_of_now_and_keeps_what_was_made_of_them():
    """What is made of a node holds questions under way, so it is made once."""
    now: list[Any] = [object(), object()]
    single = SingleNodes(lambda: now)
    each = OfEachNode(single, lambda node: [node])
    first = each.now()
    assert len(single) == 2 and [*single] == now and single[0] is now[0]
    now.append(object())
    second = each.now()
    assert all(one is other for one, other in zip(first, second, strict=False)) and len(second) == 3
    del now[0]
    third = each.now()
    assert len(third) == 2 and third[0] is first[1]
