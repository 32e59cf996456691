"""What a replica tells the owner of its deliveries, and when (money rule 2)."""

from actors.gateway.calls.answers import LateAnswers
from actors.upstream import replies

from .doubles import PROOF, OneAccount, ScriptedNode, a_call, node_error, pipeline_of


async def test_a_paid_answer_carries_its_charge_until_it_has_left():
    """The owner is told of a delivery only by the door, after the answer left; never by the pipeline itself."""
    account = OneAccount(30)
    pipeline = pipeline_of(account, ScriptedNode())
    done = await pipeline.single(PROOF, a_call("getSlot"))
    (operation,) = account.ends
    assert done.items[0].charge is account.ends[operation]
    assert account.delivered_operations == []
    LateAnswers(account, lambda *_: None).delivered([done.items[0].charge])
    assert account.delivered_operations == [operation]


async def test_a_free_answer_has_nothing_to_deliver():
    """What costs nothing leaves nothing to make good."""
    for answer in (replies.TIMED_OUT, node_error(-32001, "Block 5 cleaned up")):
        account = OneAccount(30)
        done = await pipeline_of(account, ScriptedNode(lambda *_, answer=answer: answer)).single(
            PROOF, a_call("getBlock", 5)
        )
        assert done.items[0].charge is None
