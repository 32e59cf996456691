"""Guards on which machine an actor starts."""

from typing import Any

from actors.seats import seat


def test_actors_of_a_kind_are_apart_and_not_on_the_head() -> None:
    """A machine that is lost takes a part of the owners along, and the head has Ray's own work."""

    def node(name: str, alive: bool = True, head: bool = False) -> dict[str, Any]:
        return {"NodeID": name, "Alive": alive, "Resources": {"node:__internal_head__": 1.0} if head else {}}

    head, one, two, gone = node("0", head=True), node("1"), node("2"), node("3", alive=False)
    assert seat("account-shard-0", [head]) is None
    seats = [seat(f"account-shard-{number}", [two, head, gone, one]) for number in range(4)]
    assert set(seats) == {"1", "2"} and seats[:2] == seats[2:]
    assert seat("send-racer", [head, one, two]) in ("1", "2")
