"""One race driven by anything that may happen, in any order, over a chain that decides by itself when it lands."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.sends.core import (
    BLOCKHASH_BLOCKS,
    RESEND_SLOTS,
    WINDOW_SLOTS,
    Proof,
    RaceState,
    RaceStep,
    SendStatus,
    Ticket,
    began,
    broadcast_begins,
    charge,
    ended,
    is_over,
    next_step,
    window_opens,
)

NOW, START = 1_000_000, 500
FINAL_SLOTS = 32


class RaceMachine(RuleBasedStateMachine):
    """The truth is kept here: where the chain is, and in which slot the transaction landed or will."""

    @initialize(known=st.booleans(), fails=st.booleans(), age=st.sampled_from((0, 20, 150)))
    def start(self, known: bool, fails: bool, age: int) -> None:
        """age: blocks that the blockhash is old already; a node that lags does not know a young one."""
        self.slot, self.now_ms, self.fails = START, NOW, fails
        lag = 0 if known else 120
        self.expires = START + BLOCKHASH_BLOCKS - age
        self.race = began(b"s" * 64, b"raw", b"h" * 32, None, START - lag, known, START, NOW)
        self.stored = self.race
        self.lands: int | None = None
        self.left: list[int] = []  # Slots of broadcasts in this window.
        self.windows = 1

    @rule()
    def the_process_dies_and_another_takes_over(self) -> None:
        """Only what is stored is left."""
        self.race = self.stored

    @precondition(lambda self: self.race.state.open)
    @rule(
        slots=st.sampled_from((0, 1, 8, 8, 40, 200)),
        sees=st.booleans(),
        slot_known=st.booleans(),
        history=st.booleans(),
        delay=st.sampled_from((1, 60, 120)),
        arrives=st.booleans(),
        dies=st.booleans(),
    )
    def it_takes_its_next_step(
        self, slots: int, sees: bool, slot_known: bool, history: bool, delay: int, arrives: bool, dies: bool
    ) -> None:
        """sees: a node answers about the status; dies: the process is killed between the store and the first byte."""
        self.slot += slots
        self.now_ms += slots * 400
        # A node without that history does not know what has landed long ago.
        seen = self._seen() if sees and (history or self.lands is None or self.slot - self.lands < 20) else None
        proof = Proof(self.slot - FINAL_SLOTS, 0 if history else self.slot) if sees and seen is None else None
        slot = self.slot if slot_known else None
        step = next_step(self.race, slot, self.now_ms, seen, proof)
        if step is RaceStep.BROADCAST:
            self.race = self.stored = broadcast_begins(self.race, slot)
            if dies:
                return
            self.left.append(self.slot)
            self.race = self.stored = replace(self.race, sent=True)
            lands = self.slot + delay
            if arrives and lands <= self.expires:
                self.lands = lands if self.lands is None else min(self.lands, lands)
        elif step is not RaceStep.WAIT:
            self.race = self.stored = ended(self.race, step, seen, self.now_ms)

    @precondition(lambda self: self.race.state.open and is_over(self.race, self.slot, self.now_ms))
    @rule()
    def another_call_comes(self) -> None:
        self.race = self.stored = window_opens(self.race, self.slot, self.now_ms)
        self.left, self.windows = [], self.windows + 1

    @invariant()
    def it_broadcasts_by_the_rules(self) -> None:
        if hasattr(self, "race"):
            self.race.check()
            assert self.race.broadcasts <= 3 and len(self.left) <= 3
            assert all(slot < self.race.window_slot + WINDOW_SLOTS + 60 for slot in self.left)
            assert all(b - a >= RESEND_SLOTS for a, b in zip(self.left[1:], self.left[2:], strict=False))
            assert self.race.retries <= 3 * self.windows

    @invariant()
    def its_end_is_the_chains(self) -> None:
        """None is told failed that lands later, and a landing is charged only for what is on the chain."""
        if not hasattr(self, "race") or self.race.state.open:
            return
        first, other = (Ticket(b"o" * 16, b"p" * 32, 1, "m", 50, 2, b"s" * 64, NOW, first=it) for it in (True, False))
        charges = charge(self.race, first), charge(self.race, other)
        if self.race.state is RaceState.CONFIRMED:
            assert self.lands is not None and self.lands <= self.slot and not self.fails
            assert charges == (50, 2)
        elif self.race.state is RaceState.FAILED:
            assert self.lands is not None and self.fails and charges == (2, 2)
        elif self.race.state is RaceState.EXPIRED:
            assert self.lands is None, "told failed, and it lands"
            assert charges == ((2, 2) if self.race.sent else (0, 0))

    def _seen(self) -> SendStatus | None:
        if self.lands is None or self.lands > self.slot:
            return None
        age = self.slot - self.lands
        return SendStatus(self.lands, "err" if self.fails else None, age >= 2, age >= FINAL_SLOTS)


TestRaceMachine = RaceMachine.TestCase
TestRaceMachine.settings = settings(max_examples=300, stateful_step_count=12)

_STEPS = st.fixed_dictionaries(
    {
        "slots": st.sampled_from((0, 1, 8, 8, 40, 200)),
        "delay": st.sampled_from((1, 60, 120)),
        **{name: st.booleans() for name in ("sees", "slot_known", "history", "arrives", "dies")},
    }
)


@settings(max_examples=1_000)
@given(known=st.booleans(), age=st.sampled_from((0, 20, 150)), steps=st.lists(_STEPS, min_size=4, max_size=12))
def test_long_races_end_as_the_chain_has_them(known: bool, age: int, steps: list[dict[str, Any]]) -> None:
    """The same machine with many steps each: left to itself, Hypothesis prefers short runs."""
    machine: Any = RaceMachine()
    machine.start(known=known, fails=False, age=age)
    for step in steps:
        if machine.race.state.open:
            machine.it_takes_its_next_step(**step)
            machine.it_broadcasts_by_the_rules()
    machine.its_end_is_the_chains()
