import ast
from pathlib import Path

from solders.rpc import responses

from devnode.encoding.addresses import SYSVAR_EPOCH_SCHEDULE
from devnode.faults.plan import read_plan
from devnode.rpc import cluster
from tests.devnode.local_node import LocalNode


def test_every_invented_constant_is_in_the_readme() -> None:
    """Users can read in the README which facts about the cluster are invented."""
    source = Path(cluster.__file__)
    assigned = [node.targets[0] for node in ast.parse(source.read_text()).body if isinstance(node, ast.Assign)]
    names = [target.id for target in assigned if isinstance(target, ast.Name)]
    readme = (source.parents[1] / "README.md").read_text()
    assert "SHRED_VERSION" in names and [name for name in names if name not in readme] == []


def test_identity_version_and_addresses_of_the_node(local: LocalNode) -> None:
    identity = str(local.keys.identity.pubkey())
    assert local.call("getIdentity") == {"identity": identity}
    assert local.call("getGenesisHash") == "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
    assert local.call("getVersion")["solana-core"] == "4.1.2"
    (node,) = local.call("getClusterNodes")
    assert (node["pubkey"], node["rpc"], node["tpuQuic"]) == (identity, "127.0.0.1:8899", None)
    responses.GetClusterNodesResp.from_json(local.raw_reply("getClusterNodes"))
    responses.GetVersionResp.from_json(local.raw_reply("getVersion"))


def test_health(local: LocalNode) -> None:
    """An unhealthy node answers -32005 with Agave's text, and with its lag if it has one."""
    assert local.call("getHealth") == "ok"
    local.node.faults.set(read_plan({"node": {"unhealthy": True}}))
    assert local.error("getHealth") == (-32005, "Node is unhealthy")
    local.node.faults.set(read_plan({"node": {"lag_slots": 200}}))
    assert local.error("getHealth") == (-32005, "Node is behind by 200 slots")


def test_epochs_agree_with_the_sysvar(local: LocalNode) -> None:
    info = local.call("getEpochInfo", {"commitment": "processed"})
    assert info["absoluteSlot"] == local.chain.levels.building.slot == info["slotIndex"]
    sysvar = local.call("getAccountInfo", str(SYSVAR_EPOCH_SCHEDULE), {"encoding": "jsonParsed"})
    assert sysvar["value"]["data"]["parsed"]["info"] == local.call("getEpochSchedule")


def test_this_node_leads_every_slot(local: LocalNode) -> None:
    identity = str(local.keys.identity.pubkey())
    assert local.call("getSlotLeader") == identity
    assert local.call("getSlotLeaders", 1_000, 3) == [identity] * 3
    assert local.error("getSlotLeaders", 0, 5_001)[0] == -32602
    assert local.error("getSlotLeaders", 900_000, 1) == (
        -32602,
        "Invalid slot range: leader schedule for epoch 2 is unavailable",
    )
    assert len(local.call("getLeaderSchedule")[identity]) == 432_000
    assert local.call("getLeaderSchedule", None, {"identity": str(local.faucet.pubkey)}) == {}
    assert local.call("getLeaderSchedule", 10**9) is None
    assert list(local.call("getLeaderSchedule", {"identity": identity})) == [identity]


def test_votes_and_stake_are_plausible(local: LocalNode) -> None:
    (account,) = local.call("getVoteAccounts")["current"]
    assert account["nodePubkey"] == local.call("getIdentity")["identity"]
    assert account["lastVote"] == local.chain.levels.building.slot - 1
    mine = {"votePubkey": account["votePubkey"]}
    assert local.call("getVoteAccounts", mine)["current"] == [account]
    other = {"votePubkey": str(local.faucet.pubkey)}
    assert local.call("getVoteAccounts", other) == {"current": [], "delinquent": []}
    responses.GetVoteAccountsResp.from_json(local.raw_reply("getVoteAccounts"))
    assert local.call("getStakeMinimumDelegation")["value"] == 1


def test_there_is_no_inflation(local: LocalNode) -> None:
    assert local.call("getInflationGovernor")["initial"] == 0
    assert local.call("getInflationRate") == {"epoch": 0, "foundation": 0.0, "total": 0.0, "validator": 0.0}
    assert local.error("getInflationReward", [str(local.faucet.pubkey)])[0] == -32004
    assert local.error("getInflationReward", [str(local.faucet.pubkey)] * 33)[0] == -32602


def test_snapshots_and_shreds(local: LocalNode) -> None:
    """There are no snapshots, which is Agave's error; without shreds, their newest slot is the one being built."""
    assert local.error("getHighestSnapshotSlot") == (-32008, "No snapshot")
    slot = local.chain.levels.building.slot
    assert local.call("getMaxRetransmitSlot") == local.call("getMaxShredInsertSlot") == slot


def test_block_production_counts_skipped_slots(local: LocalNode) -> None:
    local.beat(skip=2)
    local.finalize()
    first, last = 1_000, local.call("getSlot")
    value = local.call("getBlockProduction", {"range": {"firstSlot": first}})["value"]
    identity = local.call("getIdentity")["identity"]
    leader_slots, produced = value["byIdentity"][identity]
    assert (leader_slots, produced) == (last - first + 1, last - first + 1 - 2)
    assert value["range"] == {"firstSlot": first, "lastSlot": last}
    assert local.error("getBlockProduction", {"range": {"firstSlot": 5, "lastSlot": 4}})[0] == -32602
    assert local.error("getBlockProduction", {"range": {"firstSlot": 5, "lastSlot": 10**6}})[0] == -32602
    assert local.call("getBlockProduction", {"identity": str(local.faucet.pubkey)})["value"]["byIdentity"] == {}
