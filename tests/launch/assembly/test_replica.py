"""Every method that is sold as composed has somebody who answers it."""

from actors.addresses import WRAPPED_SOL_MINT
from actors.clock import ManualClock
from actors.config import Config
from actors.gateway.calls.admission import CALLER_METHODS
from actors.launch.assembly.replica import with_own_methods
from actors.methods.accounts import BulkQuestion
from actors.methods.assets import AssetsByIdQuestion, AssetsQuestion, TokenAccountsQuestion
from actors.methods.catalog import METHODS
from actors.methods.entries import encoded
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.methods.history import HistoryQuestion
from actors.methods.prices import Availability
from actors.methods.sends import SmartSendQuestion
from actors.sends.chain import SendChain
from actors.sends.endpoints import SendMethods
from actors.upstream import replies
from tests.ported_node import PortedNode

QUESTIONS = {
    "getAsset": AssetsByIdQuestion((WRAPPED_SOL_MINT,), True),
    "getAssetBatch": AssetsByIdQuestion((WRAPPED_SOL_MINT,)),
    "getAssets": AssetsByIdQuestion((WRAPPED_SOL_MINT,)),
    "getAssetsByOwner": AssetsQuestion("owner", 1, 1),
    "getTokenAccounts": TokenAccountsQuestion("owner", "", 1, 1),
    "getPriorityFeeEstimate": EstimateQuestion((), 50, False, False, 150),
    "getTransactionHistory": HistoryQuestion("address", 1, "confirmed"),
    "suggestPriorityFee": FeeQuestion("low", ()),
    "sendSmartTransaction": SmartSendQuestion("AAAA", True),
    "bulk/getBalances": BulkQuestion(("a",)),
    "bulk/getTokenBalances": BulkQuestion(("a",)),
    "bulk/getTransactions": BulkQuestion(("a",)),
}


class Nobody:
    """In the place of a racer that is not asked here."""

    race = status = has_sent = None


async def test_no_composed_method_reaches_a_node_under_its_own_name() -> None:
    """A node would answer "Method not found", and the call would have been sold for nothing."""
    composed = {row.name for row in METHODS.values() if row.availability is Availability.COMPOSED}
    composed.remove("rpc.discover")  # It asks no node; tests/launch/assembly/test_documents.py.
    assert composed - set(CALLER_METHODS) == {name for name in QUESTIONS if not name.startswith("bulk/")}
    for method, question in QUESTIONS.items():
        node, nobody = PortedNode(interfere=lambda *_: replies.UNREACHABLE), Nobody()
        sends = SendMethods(nobody, SendChain(node), 2, ManualClock())
        await with_own_methods(node, Config(), sends).call(method, encoded(question), 1_000)
        assert node.calls
        assert not any(asked == method for asked, _, _ in node.calls)
