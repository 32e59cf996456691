from actors.gateway.own_methods import OwnMethods
from actors.upstream import replies

from .doubles import PROOF, OneAccount, ScriptedNode, a_call, pipeline_of


async def test_an_own_method_never_reaches_the_node_and_all_others_do():
    """One name, one place where it is answered."""
    node, asked = ScriptedNode(), []

    async def answer(params: bytes, timeout_ms: int) -> replies.NodeAnswer:
        asked.append((params, timeout_ms))
        return replies.made(b'"own"')

    both = OwnMethods(node, {"getSlot": answer})
    account = OneAccount(30)
    pipeline = pipeline_of(account, both)
    own = await pipeline.single(PROOF, a_call("getSlot"))
    others = await pipeline.single(PROOF, a_call("getBlockHeight"))
    assert own.items[0].answer.value() == b'"own"'
    assert others.items[0].answer.value() == b'"ok"'
    assert asked == [(b"[]", 5_000)]
    assert [method for method, _, _ in node.calls] == ["getBlockHeight"]
    assert account.posted == {"getSlot": 1, "getBlockHeight": 1}
