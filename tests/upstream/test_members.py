"""Guards how nodes join, are drained and leave while calls run: no call fails, and none goes where it may not."""

import asyncio
from collections import Counter

from actors.upstream.members import PROBES_MIN
from actors.upstream.replies import AnswerKind

from .changing import Chain, added, nodes_over, of_settings, stages, until


async def called(nodes, times: int) -> Counter[str]:
    """Each call has its own account, so that none shares the answer of another."""
    calls = (nodes.call("getBalance", b'["%d"]' % number, 5_000) for number in range(times))
    answers = await asyncio.gather(*calls)
    assert all(answer.kind is AnswerKind.RESULT for answer in answers), answers
    return Counter(answer.node for answer in answers)


async def test_a_node_that_joins_gets_calls_after_its_good_probes_and_its_share_by_weight():
    old, new = Chain(), Chain()
    async with nodes_over(old, further=(new,)) as (nodes, _):
        await nodes.probe()
        nodes.take_over([of_settings("n0", old), added("new", new)])
        assert stages(nodes) == {"n0": "in_use", "new": "joining"} and await called(nodes, 8) == {"n0": 8}
        nodes.start()
        await until(lambda: stages(nodes)["new"] == "in_use")
        assert sum(b"getBlockHeight" in exchange.body for exchange in new.exchanges) >= PROBES_MIN
        assert await called(nodes, 8) == {"n0": 4, "new": 4}
        told: list[list[int]] = []
        nodes.follow(lambda in_use: told.append([node.weight for node in in_use]))
        nodes.take_over([of_settings("n0", old, weight=3), added("new", new)])
        assert await called(nodes, 8) == {"n0": 6, "new": 2}
        assert told == [[1, 1], [3, 1]], "health and streams hear of a weight alone, too"


async def test_a_node_of_another_network_never_gets_a_call():
    old, foreign = Chain(), Chain("6" * 43)
    async with nodes_over(old, further=(foreign,)) as (nodes, _):
        foreign.slot = 10**9  # Its slots would make every node of this network lag.
        nodes.take_over([of_settings("n0", old), added("foreign", foreign)])
        await nodes.probe()
        nodes.start()
        await until(lambda: stages(nodes)["foreign"] == "other_network")
        assert await called(nodes, 8) == {"n0": 8} and foreign.calls == 0
        assert [one.health for one in nodes.figures() if one.id == "n0"] == ["well"]


async def test_a_node_that_is_away_joins_when_it_answers():
    old, new = Chain(), Chain()
    new.is_dead = True
    async with nodes_over(old, further=(new,)) as (nodes, _):
        nodes.take_over([of_settings("n0", old), added("new", new)])
        await nodes.probe()
        nodes.start()
        await until(lambda: len(new.exchanges) > 20)
        assert stages(nodes)["new"] == "joining" and await called(nodes, 4) == {"n0": 4}
        new.is_dead = False
        await until(lambda: stages(nodes)["new"] == "in_use")


async def test_a_drained_node_ends_its_calls_and_gets_no_new_ones():
    one, two = Chain(), Chain()
    async with nodes_over(one, two) as (nodes, _):
        await nodes.probe()
        two.held.clear()
        calling = [asyncio.create_task(nodes.call("getBalance", b'["%d"]' % number, 5_000)) for number in range(4)]
        await until(lambda: two.calls >= 2)
        nodes.take_over([of_settings("n0", one), of_settings("n1", two, is_drained=True)])
        assert stages(nodes)["n1"] == "draining"
        before = two.calls
        assert await called(nodes, 6) == {"n0": 6} and two.calls == before
        two.held.set()
        assert all(answer.kind is AnswerKind.RESULT for answer in await asyncio.gather(*calling))
        assert stages(nodes)["n1"] == "drained"


async def test_a_removed_node_is_closed_once_its_calls_have_ended():
    one, two = Chain(), Chain()
    async with nodes_over(one, two) as (nodes, _):
        await nodes.probe()
        two.held.clear()
        reading = [asyncio.create_task(nodes.call("getBalance", b'["%d"]' % number, 5_000)) for number in range(2)]
        await until(lambda: two.calls)
        nodes.take_over([of_settings("n0", one)])
        assert stages(nodes)["n1"] == "ending" and len(nodes.single_nodes) == 1
        two.held.set()
        assert {answer.node for answer in await asyncio.gather(*reading)} == {"n0", "n1"}
        await until(lambda: "n1" not in stages(nodes) and two.open == 0)
        # Its place is free: another node has it, and the calls of before do not matter to it.
        third = added("third", two)
        nodes.take_over([of_settings("n0", one), third])
        nodes.start()
        await until(lambda: stages(nodes).get("third") == "in_use")
        assert await called(nodes, 4) == {"n0": 2, "third": 2}


async def test_a_drained_node_goes_on_while_no_other_can_take_its_calls():
    """The one that was added has not answered yet: a drain is no outage."""
    old, new = Chain(), Chain()
    new.is_dead = True
    async with nodes_over(old, further=(new,)) as (nodes, _):
        nodes.take_over([of_settings("n0", old, is_drained=True), added("new", new)])
        await nodes.probe()
        nodes.start()
        assert stages(nodes) == {"n0": "waiting", "new": "joining"} and await called(nodes, 4) == {"n0": 4}
        new.is_dead = False
        await until(lambda: stages(nodes) == {"n0": "drained", "new": "in_use"})
        assert await called(nodes, 4) == {"new": 4}


async def test_a_process_that_starts_needs_one_good_probe_of_an_added_node():
    """There may be no other node, and calls wait for the start."""
    old, new = Chain(), Chain()
    async with nodes_over(old, further=(new,)) as (nodes, _):
        nodes.take_over([of_settings("n0", old, is_drained=True), added("new", new)])
        await nodes.probe()
        assert await called(nodes, 4) == {"new": 4}


async def test_calls_under_way_survive_every_change():
    """Threat 15 at its worst: nodes come and go under load, and no caller sees it."""
    one, two, three = Chain(), Chain(), Chain()
    async with nodes_over(one, two, further=(three,)) as (nodes, _):
        await nodes.probe()
        nodes.start()
        ended, answers = asyncio.Event(), Counter[AnswerKind]()

        async def client(number: int) -> None:
            count = 0
            while not ended.is_set():
                count += 1
                answer = await nodes.call("getBalance", b'["%d-%d"]' % (number, count), 5_000)
                answers[answer.kind] += 1

        calling = [asyncio.create_task(client(number)) for number in range(4)]
        first, second, third = of_settings("n0", one), of_settings("n1", two), added("third", three)
        drained = of_settings("n0", one, is_drained=True)
        for wanted in ([first, second, third], [drained, second, third], [second, third], [third], [first, third]):
            nodes.take_over(wanted)
            ids = {node.id for node in wanted if not node.is_drained}
            await until(lambda ids=ids: {k for k, v in stages(nodes).items() if v == "in_use"} == ids)
        ended.set()
        await asyncio.gather(*calling)
        assert set(answers) == {AnswerKind.RESULT} and answers[AnswerKind.RESULT] > 20
