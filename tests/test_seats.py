"""Guards on which machine an actor starts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.seats import kind_of, next_best, next_move, seat


def test_actors_of_a_kind_are_apart_and_not_on_the_head() -> None:
    """A machine that is lost takes a part of the owners along, and the head has Ray's own work."""

    def node(name: str, alive: bool = True, head: bool = False) -> dict[str, Any]:
        return {"NodeID": name, "Alive": alive, "Resources": {"node:__internal_head__": 1.0} if head else {}}

    head, one, two, gone = node("0", head=True), node("1"), node("2"), node("3", alive=False)
    assert seat("account-shard-0", [head]) is None
    seats = [seat(f"account-shard-{number}", [two, head, gone, one]) for number in range(4)]
    assert set(seats) == {"1", "2"} and seats[:2] == seats[2:]
    assert seat("send-racer", [head, one, two]) in ("1", "2")


def node_of(name: str, head: bool = False) -> dict[str, Any]:
    return {"NodeID": name, "Alive": True, "Resources": {"node:__internal_head__": 1.0} if head else {}}


def test_an_actor_whose_machine_is_lost_starts_on_the_head_only_where_there_is_no_worker() -> None:
    """Ray takes the first of these selectors that a node fits. Without a head among the nodes there is nothing to
    leave out."""
    assert next_best([node_of("h", head=True), node_of("1")]) == [
        {"label_selector": {"ray.io/node-id": "!in(h)"}},
        {"label_selector": {}},
    ]
    assert next_best([node_of("1")]) == [{"label_selector": {}}]


names = st.sampled_from(["account-shard-", "send-racer-", "webhook-dispatcher-", "deposit-watcher", "signals-pump-"])


@given(
    seats=st.dictionaries(
        st.builds(lambda kind, number: kind + str(number) * kind.endswith("-"), names, st.integers(0, 30)),
        st.sampled_from(["h", "1", "2", "3"]),
    ),
    workers=st.integers(0, 3),
)
def test_moves_end_with_every_machine_having_as_many(seats: dict[str, str], workers: int) -> None:
    """Design, "Owners, for every kind of actor": none on the head, and neither the actors of a kind nor all together
    differ by more than one from worker to worker. Each move is of an actor to another machine."""
    alive = [node_of("h", head=True), *(node_of(str(number)) for number in range(1, workers + 1))]
    present = {str(node["NodeID"]) for node in alive}
    seats = {name: node if node in present else "h" for name, node in seats.items()}
    for _ in range(3 * len(seats) + 1):
        move = next_move(seats, alive)
        if move is None:
            break
        name, target = move
        assert seats[name] != target and target in present - {"h"}
        seats[name] = target
    else:
        raise AssertionError("the moves do not end")
    if not workers:
        return
    assert "h" not in seats.values()
    groups = [[name for name in seats if kind_of(name) == kind] for kind in {kind_of(name) for name in seats}]
    for group in (*groups, list(seats)):
        counts = [sum(seats[name] == worker for name in group) for worker in present - {"h"}]
        assert max(counts) - min(counts) <= 1, (group, seats)
