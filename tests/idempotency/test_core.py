"""The rules of a key, by example and as a whole: however runs die, a key is one charge and one answer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.idempotency.core import KEPT_MS, LEASE_MS, KeyRecord, Verdict, began, decide, fingerprint_of, parse_key
from tests.idempotency.memory_store import MemoryIdempotencyStore

NOW = 1_700_000_000_000


def a_record(number: int = 0, asked: bytes = b"f") -> KeyRecord:
    return began(b"scope", "key", asked, number.to_bytes(16, "big"), NOW)


@pytest.mark.parametrize(
    ("stored", "now_ms", "verdict"),
    [
        (a_record(1), NOW, Verdict.RUN),
        (a_record(0), NOW + LEASE_MS - 1, Verdict.RUNNING),
        (a_record(0), NOW + LEASE_MS, Verdict.TAKE_OVER),
        (replace(a_record(0), answered=True, answer=b"a"), NOW + KEPT_MS - 1, Verdict.REPEAT),
        (replace(a_record(0), answered=True), NOW, Verdict.NOT_KEPT),
        (a_record(0, b"other"), NOW + LEASE_MS, Verdict.OTHER_REQUEST),
        (replace(a_record(0, b"other"), answered=True, answer=b"a"), NOW, Verdict.OTHER_REQUEST),
    ],
)
def test_what_a_request_may_do(stored: KeyRecord, now_ms: int, verdict: Verdict) -> None:
    """Decisions, "Idempotency-Key": another body is refused at any time, as long as the key is kept."""
    assert decide(stored, a_record(1), now_ms) is verdict


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        (b"a", "a"),
        (b'"8e03978e-40d5-43dd-bc93-6894a57f9324"', '"8e03978e-40d5-43dd-bc93-6894a57f9324"'),
        (b" " * 255, " " * 255),
        (b"", None),
        (b"a" * 256, None),
        (b"a\tb", None),
        (b"\x7f", None),
        ("é".encode(), None),
    ],
)
def test_a_key_is_printable_and_short(sent: bytes, key: str | None) -> None:
    assert parse_key(sent) == key


def test_what_is_asked_is_the_method_and_its_parameters() -> None:
    assert fingerprint_of("a", b"[1]") == fingerprint_of("a", b"[1]")
    assert len({fingerprint_of(*one) for one in (("a", b"[1]"), ("a", b"[2]"), ("ab", b"[1]"), ("a", b"b[1]"))}) == 4


class Run:
    """A run of a call, as a shell carries it out: ask, keep, charge, answer. It may die after any step."""

    def __init__(self, record: KeyRecord, world: "Keys") -> None:
        self.record, self.world, self.steps = record, world, iter((self.ask, self.keep, self.charge, self.reply))

    async def ask(self) -> None:
        self.world.asked += 1
        self.answer = b"answer %d" % self.world.asked

    async def keep(self) -> None:
        if not await self.world.store.keep(self.record, self.answer, 2):
            self.steps = iter(())  # Another run has the key: its answer is the one.

    async def charge(self) -> None:
        self.world.ledger.add(self.record.operation)

    async def reply(self) -> None:
        self.world.told.append(self.answer)


class Keys:
    def __init__(self) -> None:
        self.store, self.ledger, self.told = MemoryIdempotencyStore(), set[bytes](), list[bytes]()
        self.runs: list[Run] = []
        self.now_ms, self.asked, self.requests = NOW, 0, 0

    async def request(self, asked: bytes) -> Verdict:
        self.requests += 1
        mine = began(b"scope", "key", asked, self.requests.to_bytes(16, "big"), self.now_ms)
        stored = await self.store.claim(mine, self.now_ms, 9)
        assert stored is not None
        verdict = decide(stored, mine, self.now_ms)
        if verdict is Verdict.TAKE_OVER:
            assert await self.store.take_over(stored, mine.attempt, mine.lease_until_ms)
            self.runs.append(Run(replace(stored, attempt=mine.attempt), self))
        elif verdict is Verdict.RUN:
            self.runs.append(Run(mine, self))
        elif verdict is Verdict.REPEAT:
            self.ledger.add(stored.operation)
            self.told.append(stored.answer)
        return verdict


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("request"), st.integers(0, 4)),
            st.tuples(st.just("step"), st.integers(0, 3)),
            st.tuples(st.just("wait"), st.sampled_from([1_000, LEASE_MS])),
        ),
        max_size=30,
    )
)
async def test_however_runs_die_or_stall_a_key_is_one_charge(events: list[tuple[str, int]]) -> None:
    """Any interleaving of requests, steps of runs and time, in which a run may stop for good or come back late.

    At most one operation is ever charged; whoever was answered was charged for; all answers are the same; and another
    request under the key is never carried out.
    """
    keys = Keys()
    for event, number in events:
        if event == "wait":
            keys.now_ms += number
        elif event == "step" and number < len(keys.runs):
            step = next(keys.runs[number].steps, None)
            if step is not None:
                await step()
        elif event == "request":
            asked_before = len(keys.runs)
            verdict = await keys.request(b"other" if number == 4 and keys.runs else b"f")
            if number == 4 and asked_before:
                assert verdict is Verdict.OTHER_REQUEST and len(keys.runs) == asked_before
        assert len(keys.ledger) <= 1 and len(set(keys.told)) <= 1
        assert bool(keys.ledger) >= bool(keys.told)
