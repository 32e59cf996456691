"""What both are asked, for every method that a node answers: one call that succeeds and those that the node refuses.

Errors are such as only the node can know of; what the gateway refuses by itself, for free, has tests of its own.
"""

from dataclasses import dataclass, field
from typing import Any

from solders.keypair import Keypair

from . import people
from .both import Both
from .people import USDC_MINT, Somebody

_FAR = 1 << 60
_TOO_NEW = {"minContextSlot": _FAR}
_BASE64 = {"encoding": "base64"}
_VERSION_0 = {"maxSupportedTransactionVersion": 0}
_TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"


@dataclass(frozen=True, slots=True)
class Asked:
    """params: as a client sends them. direct: as the node is to get them, where the gateway adds something."""

    params: list[Any]
    direct: list[Any] | None = None

    @property
    def at_node(self) -> list[Any]:
        return self.params if self.direct is None else self.direct


@dataclass(frozen=True, slots=True)
class Case:
    """good None: a node of this kind only ever refuses. free: errors by code that cost nothing."""

    good: Asked | None
    bad: list[Asked] = field(default_factory=list)
    free: frozenset[int] = frozenset()


def cases(both: Both, key: Keypair, somebody: Somebody) -> dict[str, Case]:
    """By method. Made anew for each run, as transactions and blockhashes age."""
    context = Case(Asked([{"commitment": "confirmed"}]), [Asked([_TOO_NEW])])
    nothing = Case(Asked([]))
    return (
        dict.fromkeys(
            ("getBlockHeight", "getEpochInfo", "getLatestBlockhash", "getSlot", "getSlotLeader", "getTransactionCount"),
            context,
        )
        | {"getStakeMinimumDelegation": context}
        | dict.fromkeys(
            ("getClusterNodes", "getEpochSchedule", "getFirstAvailableBlock", "getGenesisHash", "getHealth"), nothing
        )
        | dict.fromkeys(("getIdentity", "getInflationRate", "getMaxRetransmitSlot", "getVersion"), nothing)
        | dict.fromkeys(("getMaxShredInsertSlot", "minimumLedgerSlot", "getInflationGovernor"), nothing)
        | {"getHighestSnapshotSlot": Case(None, [Asked([])])}
        | _accounts(somebody)
        | _blocks(somebody)
        | _transactions(both, key, somebody)
    )


def _accounts(somebody: Somebody) -> dict[str, Case]:
    wallet, account = somebody.wallet, somebody.token_account
    by_program = {"programId": _TOKEN_PROGRAM}
    in_base58 = Asked([account, {"encoding": "base58"}])
    return {
        "getAccountInfo": Case(Asked([account, {"encoding": "jsonParsed"}]), [in_base58, Asked([wallet, _TOO_NEW])]),
        "getBalance": Case(Asked([wallet]), [Asked([wallet, _TOO_NEW])]),
        "getMultipleAccounts": Case(Asked([[wallet, account, wallet]]), [Asked([[wallet], _TOO_NEW])]),
        "getTokenAccountBalance": Case(Asked([account]), [Asked([wallet])]),
        "getTokenSupply": Case(Asked([USDC_MINT]), [Asked([wallet])]),
        "getTokenAccountsByOwner": Case(
            Asked([wallet, by_program], [wallet, by_program, _BASE64]),
            [Asked([wallet, {"mint": wallet}], [wallet, {"mint": wallet}, _BASE64])],
        ),
        "getSignaturesForAddress": Case(Asked([wallet, {"limit": 2}]), [Asked([wallet, {"before": "5" * 87}])]),
        "getMinimumBalanceForRentExemption": Case(Asked([165])),
        "getRecentPrioritizationFees": Case(Asked([[wallet]])),
        "getVoteAccounts": Case(Asked([{"commitment": "confirmed"}])),
    }


def _blocks(somebody: Somebody) -> dict[str, Case]:
    slot, slot_v1 = somebody.slot, somebody.slot_v1
    return {
        "getBlock": Case(
            Asked([slot], [slot, _VERSION_0]),
            [Asked([_FAR], [_FAR, _VERSION_0]), Asked([slot_v1], [slot_v1, _VERSION_0]), Asked([0], [0, _VERSION_0])],
            free=frozenset((-32001, -32004)),
        ),
        "getBlockCommitment": Case(Asked([slot])),
        "getBlockProduction": Case(
            Asked([{"range": {"firstSlot": slot, "lastSlot": slot}}]),
            [Asked([{"range": {"firstSlot": 0, "lastSlot": _FAR}}])],
        ),
        "getBlocks": Case(Asked([slot, slot + 5])),
        "getBlocksWithLimit": Case(Asked([slot, 5])),
        "getBlockTime": Case(Asked([slot]), [Asked([_FAR])]),
        "getLeaderSchedule": Case(Asked([None, {"identity": somebody.wallet}])),
        "getSlotLeaders": Case(Asked([slot, 10]), [Asked([_FAR, 10])]),
        "getRecentPerformanceSamples": Case(Asked([5])),
    }


def _transactions(both: Both, key: Keypair, somebody: Somebody) -> dict[str, Case]:
    recent = people.blockhash(both)
    fresh = [people.signed(key, recent, people.given(key, lamports)) for lamports in (10**6 + 1, 10**6 + 2, 10**6 + 3)]
    first, second, third = (people.text(transaction) for transaction in fresh)
    too_much = people.text(people.signed(key, recent, people.given(key, 10**18)))
    message = people.message_text(fresh[0])
    unchecked = _BASE64 | {"skipPreflight": True}
    no_answers = {"preExecutionAccountsConfigs": [None] * 2, "postExecutionAccountsConfigs": [None] * 2}
    bundle = [first, second]
    return {
        "getFeeForMessage": Case(Asked([message]), [Asked([message, _TOO_NEW])]),
        "isBlockhashValid": Case(Asked([str(recent)]), [Asked([str(recent), _TOO_NEW])]),
        "getSignatureStatuses": Case(Asked([[somebody.signature, "5" * 87], {"searchTransactionHistory": True}])),
        "getTransaction": Case(
            Asked([somebody.signature], [somebody.signature, _VERSION_0]),
            [Asked([somebody.signature_v1], [somebody.signature_v1, _VERSION_0])],
        ),
        "simulateTransaction": Case(
            Asked([first, _BASE64 | {"sigVerify": True}]), [Asked([first, _BASE64 | _TOO_NEW])]
        ),
        "sendTransaction": Case(Asked([third, unchecked]), [Asked([too_much, _BASE64])]),
        "simulateBundle": Case(
            Asked([{"transactions": bundle}], [{"encodedTransactions": bundle}]),
            [
                Asked(
                    [{"transactions": bundle}, no_answers | {"simulationBank": {"slot": _FAR}}],
                    [{"encodedTransactions": bundle}, no_answers | {"simulationBank": {"slot": _FAR}}],
                )
            ],
        ),
    }
