from solders.signature import Signature

from devnode.chain import arrivals
from devnode.chain.arrivals import ArrivalLog, Fate
from devnode.chain.chain import Dropped, Source, Waiting
from devnode.encoding.wire import Malformed
from devnode.execution.execution import Refused

SIGNATURE = Signature.default()


def test_a_fate_follows_from_what_the_chain_said() -> None:
    log = ArrivalLog()
    arrival = log.add(Source.TPU, SIGNATURE, 5, 7)
    assert arrival.fate is Fate.WAITING
    for result, fate in (
        (Dropped(), Fate.DROPPED),
        (Refused("AlreadyProcessed"), Fate.DUPLICATE),
        (Malformed("bytes"), Fate.REFUSED),
        (Refused("AccountNotFound"), Fate.REFUSED),
        (Waiting(), Fate.WAITING),
        (Refused("BlockhashNotFound"), Fate.EXPIRED),
    ):
        arrival.settle(result)
        assert arrival.fate is fate, result


def test_only_the_newest_arrivals_are_kept() -> None:
    log = ArrivalLog()
    for number in range(arrivals.ARRIVALS_KEPT + 10):
        log.add(Source.RPC, SIGNATURE, number, number)
    kept = log.after(0, 10**6)
    assert len(kept) == arrivals.ARRIVALS_KEPT and kept[0].number == 11
    assert [one.number for one in log.after(kept[-3].number, 5)] == [kept[-2].number, kept[-1].number]
