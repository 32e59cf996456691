import orjson
import pytest

from actors.clock import ManualClock
from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.prober import Prober

WELL = {"getHealth": "ok", "getSlot": 7, "getBlockHeight": 5, "getVersion": {"solana-core": "4.0.1"}}


class ScriptedClient:
    """Answers by method, or by method and commitment; what is not in the script is not answered."""

    def __init__(self, script):
        self.script = script
        self.asked = []

    async def ask(self, method, params, timeout_ms, bytes_max):
        assert (timeout_ms, bytes_max) == (1_000, 4_096)
        self.asked.append(method)
        config = orjson.loads(params)
        key = (method, config[0]["commitment"]) if config else method
        if key not in self.script:
            return replies.UNREACHABLE
        value = self.script[key]
        body = value if isinstance(value, dict) and "error" in value else {"result": value}
        return replies.judge(orjson.dumps({"jsonrpc": "2.0", **body, "id": 1}))


def prober_of(script, heard=None, one_of_several=False) -> Prober:
    client = script if isinstance(script, ScriptedClient) else ScriptedClient(script)
    listener = (lambda probe: None) if heard is None else heard.append
    return Prober(UpstreamConfig(), client, "node-1", ManualClock(), listener, one_of_several)


async def test_a_probe_reads_slot_height_and_version():
    """All that the health page shows of a node comes from its probes."""
    heard = []
    probe = await prober_of(WELL, heard).probe()
    assert (probe.answered, probe.slot, probe.block_height, probe.version) == (True, 7, 5, "4.0.1")
    assert (probe.behind, probe.processed_slot) == (False, None)
    assert heard == [probe]


async def test_a_node_without_a_slot_has_not_answered():
    """The slot decides; health alone does not make a node useful."""
    probe = await prober_of({"getHealth": "ok"}).probe()
    assert not probe.answered
    assert probe.latency_ms is None


@pytest.mark.parametrize("slot", ["soon", -1, 2**64 - 1, 10**13])
async def test_nonsense_is_no_answer(slot):
    """A slot that is no number is not one; by one that no chain has reached, every other node would be far behind."""
    assert not (await prober_of({**WELL, "getSlot": slot}).probe()).answered


@pytest.mark.parametrize("version", ["", "<b>" * 10_000, "4.0.1\x00", "4.0.1\n"])
async def test_a_node_cannot_fill_the_health_page(version):
    """It shows the version and the height of the node as they are told; a number above 64 bits is no JSON there."""
    probe = await prober_of({**WELL, "getVersion": {"solana-core": version}, "getBlockHeight": 2**64 - 1}).probe()
    assert (probe.answered, probe.version, probe.block_height) == (True, None, None)


async def test_a_node_is_believed_when_it_says_that_it_is_behind():
    """It knows its cluster, and with one node nobody else could tell. A node without the method says nothing."""
    error = {"error": {"code": -32005, "message": "Node is behind by 200 slots"}}
    assert (await prober_of({**WELL, "getHealth": error}).probe()).behind
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    assert not (await prober_of({**WELL, "getHealth": unknown}).probe()).behind
    assert not (await prober_of({name: WELL[name] for name in WELL if name != "getHealth"}).probe()).behind


async def test_one_of_several_is_asked_where_it_stands_at_each_commitment():
    """Reads that need a slot are sent by it."""
    script = {**WELL, ("getSlot", "confirmed"): 38, ("getSlot", "processed"): 39}
    probe = await prober_of(script, one_of_several=True).probe()
    assert (probe.slot, probe.confirmed_slot, probe.processed_slot) == (7, 38, 39)


async def test_the_version_is_asked_now_and_then_and_after_an_outage():
    """It changes with a restart, so it need not be asked every second."""
    client = ScriptedClient(dict(WELL))
    prober = prober_of(client)
    for _ in range(5):
        assert (await prober.probe()).version == "4.0.1"
    assert client.asked.count("getVersion") == 1
    client.script = {}
    await prober.probe()
    client.script = {**WELL, "getVersion": {"solana-core": "4.1.0"}}
    assert (await prober.probe()).version == "4.1.0"
