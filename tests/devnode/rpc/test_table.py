from devnode.rpc.table import METHODS
from tests.devnode.local_node import LocalNode

AGAVE = """
getBalance getEpochInfo getGenesisHash getHealth getIdentity getSlot getBlockHeight getHighestSnapshotSlot
getTransactionCount getVersion getVoteAccounts getLeaderSchedule getMinimumBalanceForRentExemption
getInflationGovernor getInflationRate getEpochSchedule getSlotLeader getSlotLeaders getBlockProduction getAccountInfo
getMultipleAccounts getBlockCommitment getTokenAccountBalance getTokenSupply getProgramAccounts getLargestAccounts
getSupply getTokenLargestAccounts getTokenAccountsByOwner getTokenAccountsByDelegate getInflationReward
getClusterNodes getRecentPerformanceSamples getSignatureStatuses getMaxRetransmitSlot getMaxShredInsertSlot
requestAirdrop sendTransaction simulateTransaction minimumLedgerSlot getBlock getBlockTime getBlocks
getBlocksWithLimit getTransaction getSignaturesForAddress getFirstAvailableBlock getLatestBlockhash isBlockhashValid
getFeeForMessage getStakeMinimumDelegation getRecentPrioritizationFees
"""


def test_every_method_of_a_node_is_here() -> None:
    """The table has Agave's methods and the one that jito-solana adds."""
    assert set(METHODS) == {*AGAVE.split(), "simulateBundle"}


def test_bad_parameters_never_cause_an_internal_error(local: LocalNode) -> None:
    """Any number of odd parameters gives a result or an error of the client, never an exception."""
    odd = [None, True, -1, 2**64, 1.5, "", "é" * 44, [], {}, [None], {"commitment": 5}, {"encoding": []}]
    for name, method in METHODS.items():
        for count in range(method.most + 1):
            for value in odd:
                reply = local.reply(name, *[value] * count)
                assert ("result" in reply) != ("error" in reply)
                assert "error" not in reply or reply["error"]["code"] != -32603, (name, value, reply)
