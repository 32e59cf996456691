import orjson

from actors.clock import ManualClock
from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.prober import Prober


class ScriptedClient:
    """Answers by method; a method that is not in the script is not answered."""

    def __init__(self, script):
        self.script = script

    async def call(self, method, params, timeout_ms):
        assert params == b"[]"
        if method not in self.script:
            return replies.UNREACHABLE
        return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": self.script[method], "id": 1}))


def prober_of(script, heard=None) -> Prober:
    listener = None if heard is None else lambda score, probe: heard.append((score, probe))
    url = "http://user:secret@node.example:8899/?api-key=secret"
    return Prober(UpstreamConfig(), ScriptedClient(script), url, ManualClock(), listener)


async def test_a_probe_reads_slot_height_and_version():
    """All that the health page shows of a node comes from one probe."""
    heard = []
    prober = prober_of({"getSlot": 7, "getBlockHeight": 5, "getVersion": {"solana-core": "4.0.1"}}, heard)
    probe = await prober.probe()
    assert (probe.answered, probe.slot, probe.block_height, probe.version) == (True, 7, 5, "4.0.1")
    assert heard == [(prober.score, probe)]


async def test_a_node_without_a_slot_has_not_answered():
    """The slot decides; a version alone does not make a node useful."""
    probe = await prober_of({"getVersion": {"solana-core": "4.0.1"}}).probe()
    assert not probe.answered
    assert probe.latency_ms is None


async def test_nonsense_is_no_answer():
    """A slot that is no number is not one."""
    assert not (await prober_of({"getSlot": "soon"}).probe()).answered


async def test_the_name_of_a_node_carries_no_secret():
    """Scores are shown and logged; URLs of providers hold keys."""
    assert prober_of({}).score.name == "node.example:8899"
