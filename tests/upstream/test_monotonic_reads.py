"""Reads that never step back, over nodes of different lag: by example, and many clients at once."""

import asyncio
import random

import orjson
import pytest

from actors.accounts.view import View
from actors.errors import Err
from actors.upstream import monotonic_reads, replies
from actors.upstream.account_view import AccountView
from actors.upstream.monotonic_reads import commitment_of, slot_of
from actors.upstream.node_health import Commitment
from actors.upstream.replies import AnswerKind, NodeAnswer, RefusedAnswer

from .lagging import ADDRESS, BALANCE, BEHIND, LONG_MS, Chain, LaggingNode, Replica, of, result


def floor_at(slot: int) -> AccountView:
    return AccountView((0, slot, 0, 0, 0, 0))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(monotonic_reads, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(monotonic_reads, "WAIT_SECONDS", 0.05)


def slot_in(answer: NodeAnswer) -> int:
    slot = slot_of("getBalance", answer)
    assert slot is not None, answer
    return slot


# --- one read


async def test_a_node_below_the_floor_is_not_the_answer():
    """Whatever the choice between the nodes would be: only the one that has the slot answers."""
    replica = of(40, 5, 0)
    for _ in range(6):
        assert slot_in(await replica.read(floor_at(1_000))) == 1_000
    assert [node.asked("getBalance") for node in replica.nodes][:2] == [0, 0]


async def test_the_minimum_slot_is_asked_for():
    replica = of(0)
    await replica.read(floor_at(990))
    assert replica.nodes[0].calls[-1] == ("getBalance", [ADDRESS, {"commitment": "confirmed", "minContextSlot": 990}])


async def test_a_clients_own_minimum_is_kept_and_the_larger_one_wins():
    replica = of(0)
    own = orjson.dumps([ADDRESS, {"commitment": "confirmed", "minContextSlot": 995}])
    await replica.read(floor_at(990), params=own)
    assert replica.nodes[0].calls[-1][1][1]["minContextSlot"] == 995
    ahead = orjson.dumps([ADDRESS, {"commitment": "confirmed", "minContextSlot": 2_000}])
    answer = await replica.read(floor_at(990), params=ahead)
    assert answer.error_code == BEHIND, "the node's own answer, as without a floor, and nobody waits"


async def test_a_node_that_passes_over_the_minimum_is_noticed_by_its_answer():
    chain = Chain()
    replica = Replica([LaggingNode(chain, 2, heeds_minimum=False), LaggingNode(chain, 0)])
    for _ in range(4):
        assert slot_in(await replica.read(floor_at(1_000))) == 1_000
    assert replica.nodes[0].asked("getBalance") == 1, "once, and not again until it tells a newer slot"


async def test_a_method_without_a_minimum_is_compared_by_its_answer():
    chain = Chain()
    replica = Replica([LaggingNode(chain, 2), LaggingNode(chain, 0)])
    view = AccountView((1_000, 0, 0, 0, 0, 0))
    answer = await replica.read(view, "getSignatureStatuses", b'[["x"]]')
    assert slot_of("getSignatureStatuses", answer) == 1_000


async def test_a_status_shows_the_account_its_own_send():
    """A client that polls a signature and reads it as confirmed reads its writes from then on."""
    replica = of(0)
    view = AccountView(None)
    await replica.read(view, "getSignatureStatuses", b'[["x"]]')
    assert view.shown() == (1_000, -999, 0)


async def test_a_method_whose_answer_names_no_slot_is_asked_of_a_node_that_has_it():
    replica = of(1, 0)
    for _ in range(4):
        answer = await replica.read(floor_at(1_000), "getTransaction", orjson.dumps(["s", {"commitment": "confirmed"}]))
        assert replies.value_of(answer) == {"at": 1_000}
    assert replica.nodes[0].asked("getTransaction") == 0


async def test_a_method_that_does_not_depend_on_a_slot_is_asked_as_ever():
    replica = of(40)
    await replica.read(floor_at(1_000), "getVersion", b"[]")
    assert [name for name, _ in replica.nodes[0].calls] == ["getVersion"]


async def test_an_unknown_floor_is_the_newest_slot_of_all_nodes():
    """After a restart of the owner, or a minute without reads: whatever was shown before is not above it."""
    replica = of(40, 0, 5)
    view = AccountView(None)
    assert slot_in(await replica.read(view)) == 1_000
    assert view.shown() == (0, 1_000, 0)


async def test_a_bound_is_heeded():
    """The own send of the account, which a racer saw confirmed in this slot."""
    replica = of(40, 0)
    assert slot_in(await replica.read(AccountView((0, 0, 0, 0, 1_000, 0)))) == 1_000


# --- nodes that are behind


async def test_a_read_waits_until_a_node_has_the_slot():
    replica = of(2)

    async def catch_up() -> None:
        await asyncio.sleep(0.01)
        replica.nodes[0].lag = 0

    answer, _ = await asyncio.gather(replica.read(floor_at(1_000)), catch_up())
    assert slot_in(answer) == 1_000


async def test_when_no_node_comes_the_refusal_is_clear_and_short():
    replica = of(40, 20)
    answer = await replica.read(floor_at(1_000))
    assert isinstance(answer, RefusedAnswer) and answer.refusal is not None
    assert answer.refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert "no node has reached slot 1000" in answer.refusal.detail and "X-Consistency: any" in answer.refusal.detail
    assert replica.nodes[0].asked("getBalance") + replica.nodes[1].asked("getBalance") <= 2


async def test_those_who_wait_ask_together():
    """A flood of reads that wait costs the nodes a few times what one does, as some come between two polls."""
    alone, replica = of(40), of(40)
    await alone.read(floor_at(1_000))
    answers = await asyncio.gather(*(replica.read(floor_at(1_000)) for _ in range(200)))
    assert all(isinstance(answer, RefusedAnswer) for answer in answers)
    assert replica.nodes[0].asked("getSlot") < 10 * max(5, alone.nodes[0].asked("getSlot"))
    params = [orjson.dumps([ADDRESS, {"commitment": "confirmed", "encoding": str(n)}]) for n in range(200)]
    before = replica.nodes[0].asked("getBalance")
    await asyncio.gather(*(replica.read(floor_at(1_000), params=one) for one in params))
    assert replica.nodes[0].asked("getBalance") - before <= 200, "each asks once, and then waits"


async def test_a_floor_that_no_chain_here_can_have_is_refused_at_once():
    """A chain that has started again: nothing is asked, and nobody waits, until the owner gives the floor up."""
    replica = of(0)
    answer = await replica.read(floor_at(1_000_000))
    assert isinstance(answer, RefusedAnswer)
    assert replica.nodes[0].calls == []


async def test_without_a_word_of_any_node_nothing_is_promised():
    replica = of(0)
    replica.nodes[0].down = True
    replica.probe()
    answer = await replica.read(AccountView(None))
    assert isinstance(answer, RefusedAnswer) and answer.refusal is not None
    assert "no node has told its slot" in answer.refusal.detail


# --- shared answers


async def test_an_answer_that_another_caller_asked_for_is_compared():
    """Its request went to a node that is behind this caller's floor."""
    replica = of(40, 0)
    replica.nodes[1].lag = 40
    low, high = floor_at(900), floor_at(1_000)
    first = asyncio.create_task(replica.read(low))
    await asyncio.sleep(0)
    joined = [asyncio.create_task(replica.read(low)), asyncio.create_task(replica.read(high))]
    assert slot_in(await first) == 960
    assert slot_in(await joined[0]) == 960
    assert isinstance(await joined[1], RefusedAnswer)


async def test_a_floor_of_one_caller_refuses_no_other():
    replica = of(40)
    reads = await asyncio.gather(
        replica.read(floor_at(1_000)), replica.read(floor_at(950)), replica.read(floor_at(900))
    )
    assert [type(answer) for answer in reads] == [RefusedAnswer, NodeAnswer, NodeAnswer]


async def test_a_cached_answer_below_the_floor_is_not_used():
    replica = of(40)
    await replica.read(floor_at(900))
    again = await replica.read(floor_at(900))
    assert again.cache == "hit"
    replica.nodes[0].lag = 39
    newer = await replica.read(floor_at(961))
    assert (slot_in(newer), newer.cache) == (961, "miss")


async def test_equal_monotonic_reads_share_one_request():
    replica = of(0)
    await asyncio.gather(*(replica.read(floor_at(1_000 - n % 3)) for n in range(50)))
    assert replica.nodes[0].asked("getBalance") <= 2


async def test_a_late_node_is_hedged_within_the_floor():
    """The second question has the floor of the first."""
    replica = of(0, 40, 0)

    class Hanging(LaggingNode):
        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            if method == "getBalance":
                await asyncio.sleep(timeout_ms / 1000)
            return await super().call(method, params, timeout_ms)

    replica.nodes[0].__class__ = Hanging
    for _ in range(3):
        assert slot_in(await replica.read(floor_at(1_000), timeout_ms=900)) == 1_000
    assert replica.nodes[1].asked("getBalance") == 0


# --- nodes that lie


@pytest.mark.parametrize("absurd", [2**63, 10**12, -5, "7", None, 1.5])
async def test_an_absurd_slot_is_no_answer_and_raises_nothing(absurd):
    """Another node is asked, and the account's floor is what honest nodes say."""
    replica = of(0, 0)
    liar = replica.nodes[0]
    liar.lies = {"getBalance": {"context": {"slot": absurd}, "value": 1}}
    for _ in range(4):
        view = floor_at(999)
        assert slot_in(await replica.read(view)) == 1_000
        assert view.shown() == (0, 1_000, 0)


async def test_a_node_that_lies_in_its_probes_too_poisons_nothing():
    replica = of(0, 0, 3)
    replica.nodes[0].lies = {"getSlot": 10**12, "getBalance": {"context": {"slot": 10**12}, "value": 1}}
    replica.probe()
    view = AccountView(None)
    assert slot_in(await replica.read(view)) == 1_000
    assert view.shown() == (0, 1_000, 0)
    assert replica.nodes[0].asked("getBalance") == 0


async def test_a_status_with_an_absurd_slot_raises_nothing():
    replica = of(0)
    lie = {"slot": 10**12, "confirmations": 1, "err": None, "confirmationStatus": "finalized"}
    replica.nodes[0].lies = {"getSignatureStatuses": {"context": {"slot": 1_000}, "value": [lie, 7, None]}}
    view = AccountView(None)
    await replica.read(view, "getSignatureStatuses", b'[["x"]]')
    assert view.shown() == (1_000, 0, 0)


async def test_a_node_without_a_slot_in_its_answer_is_no_answer():
    replica = of(0)
    replica.nodes[0].lies = {"getBalance": {"value": 1}}
    assert (await replica.read(floor_at(999))).kind is AnswerKind.GARBAGE


# --- what an answer names


@pytest.mark.parametrize(
    ("method", "value", "slot"),
    [
        ("getSlot", 7, 7),
        ("getSlot", "7", None),
        ("getEpochInfo", {"absoluteSlot": 7, "slotIndex": 3}, 7),
        ("getBalance", {"context": {"apiVersion": "2", "slot": 7}, "value": 1}, 7),
        ("getBalance", {"value": "x" * 300, "context": {"slot": 7}}, 7),
        ("getBalance", {"value": "x" * 300, "context": {"slot": True}}, None),
        ("getBalance", {"value": "x" * 300}, None),
        ("getBalance", {"value": '"context":{"slot":9}', "context": {"slot": 7}}, 7),
        ("getBalance", None, None),
    ],
)
def test_the_slot_that_an_answer_names(method, value, slot):
    """Wherever in the answer it stands; what only looks like one is none."""
    assert slot_of(method, result(value)) == slot


@pytest.mark.parametrize(
    ("method", "params", "level"),
    [
        ("getBalance", b'["a"]', Commitment.FINALIZED),
        ("getBalance", BALANCE, Commitment.CONFIRMED),
        ("getBalance", b'["a",{"commitment":"recent"}]', Commitment.FINALIZED),
        ("getBalance", b'["a",{"commitment":null}]', Commitment.FINALIZED),
        ("getSlot", b'[{"commitment":"processed"}]', Commitment.PROCESSED),
        ("getSignatureStatuses", b'[["s"]]', Commitment.PROCESSED),
        ("getTokenAccountsByOwner", b'["a",{"commitment":"processed"}]', Commitment.FINALIZED),
        ("getTransaction", b'["s",{"commitment":"confirmed"}]', Commitment.CONFIRMED),
    ],
)
def test_the_commitment_that_a_call_is_answered_at(method, params, level):
    """As the node reads it: finalized where the call names none that there is."""
    assert commitment_of(method, orjson.loads(params)) is level


# --- many clients, several replicas


class Account:
    """An account whose owner keeps its view, as accounts/ does. Times stand still."""

    def __init__(self) -> None:
        self.view = View()
        self.newest = 0  # That any client of this account has seen.

    def call(self) -> AccountView:
        return AccountView(self.view.told(0))

    def charge(self, view: AccountView) -> None:
        shown = view.shown()
        if shown is not None:
            self.view.show(shown, True, 0)


async def _play(seed: int, monotonic: bool) -> tuple[int, int]:
    """(steps back, refused reads) of many clients, while the chain goes on and its nodes swap their lags."""
    chance = random.Random(seed)
    chain = Chain()
    lags = [0, 5, 40]
    nodes = [LaggingNode(chain, lag) for lag in lags]
    replicas = [Replica(nodes), Replica(nodes)]
    accounts = [Account() for _ in range(5)]
    steps_back = refused = 0
    over = False

    async def live() -> None:
        while not over:
            chain.slot += 1
            if chance.random() < 0.3:
                chance.shuffle(lags)
                for node, lag in zip(nodes, lags, strict=True):
                    node.lag = lag
            if chance.random() < 0.3:
                chance.choice(replicas).probe()
            await asyncio.sleep(0.001)

    async def client(number: int) -> None:
        nonlocal steps_back, refused
        account = accounts[number % len(accounts)]
        for _ in range(60):
            before, view = account.newest, account.call()
            replica = chance.choice(replicas)
            asked = replica.read(view) if monotonic else replica.any.call("getBalance", BALANCE, LONG_MS)
            answer = await asked
            if isinstance(answer, RefusedAnswer):
                refused += 1
                continue
            account.charge(view)
            slot = slot_in(answer)
            steps_back += slot < before
            account.newest = max(account.newest, slot)

    living = asyncio.create_task(live())
    await asyncio.gather(*map(client, range(20)))
    over = True
    await living
    return steps_back, refused


@pytest.mark.parametrize("seed", range(3))
async def test_no_client_of_an_account_sees_a_slot_fall(seed, monkeypatch):
    """Two replicas, three nodes that swap their lags, and twenty clients of five accounts: a read that begins after
    another one's answer is never older. The same clients do step back without the rule."""
    monkeypatch.setattr(monotonic_reads, "WAIT_SECONDS", 1.0)
    steps_back, refused = await _play(seed, monotonic=True)
    assert steps_back == 0
    assert refused < 60, "of 1,200"
    assert (await _play(seed, monotonic=False))[0] > 0
