"""Random lives of an account, step by step beside a model of it, and an auditor over what is in the ledger.

The model is written from the money rules: slow, plain, and without any of the code it judges. Time advances, clocks
are set a day or 400 days ahead or behind, requests come twice, memory is lost with everything that was not written,
holds and batches run out.
"""

import copy

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actors.accounts.account import (
    Account,
    Admitted,
    BatchesRecalled,
    Defaults,
    Event,
    HoldEnded,
    Moment,
    Moved,
    Profile,
    ProfileSet,
    apply,
    new_account,
)
from actors.accounts.admission import decide_hold, figures
from actors.accounts.core import (
    decide_adjust,
    decide_credit_expiry,
    decide_hold_expiry,
    decide_recall,
    decide_settle,
    decide_status,
    decide_void,
    is_due,
)
from actors.accounts.ledger import EntryType
from actors.accounts.ledger_time import SETTLING_MS, after_answer, agreed_ms
from actors.accounts.stored import Past, Stored, restore
from actors.accounts.writes import Write
from actors.calls import SettleRequest, operation_at
from tests.accounts.auditor import Line, audit
from tests.accounts.making import ALICE, START_MS, hold, operation
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.model import GRACE_SECONDS, HOLD_SECONDS, LIFE_SECONDS, RATE, SLOTS, Model

DEFAULTS = Defaults(RATE, SLOTS, HOLD_SECONDS, LIFE_SECONDS)
WRITE_SECONDS = 8
SETTLING_SECONDS = SETTLING_MS // 1_000
DAY_MS = 86_400_000
STEPS_MIN = 2_000
steps_taken = 0


class AccountMachine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.now_ms = START_MS
        self.ahead_ms = self.database_ahead_ms = 0
        self.boot()
        self.store = MemoryAccountStore()
        self.store.owners.take([self._account().shard], "owner")
        self.account = self._account()
        self.group = Write()
        self.model = Model()
        self.requests: list[tuple[int, tuple[int, ...], tuple[str | None, ...], int]] = []
        self.remembered_from = 0  # Requests before this were asked of a memory that is lost.
        self.next_operation = 0
        self.adjusted = 0
        self._take(ProfileSet(self.account.profile))
        self.flush()
        for amount in (40, 30, 400):
            self.adjust(amount)
            self.advance(20_000)

    # --- rules ----------------------------------------------------------------------------------------------------

    @rule(ceilings=st.lists(st.sampled_from([1, 0, 2, 3, 25, 60, 150]), min_size=0, max_size=9))
    def hold(self, ceilings: list[int]) -> None:
        self._begin()
        number, self.next_operation = self.next_operation, self.next_operation + 100
        admission = decide_hold(self.account, hold(number, *ceilings), self._moment())
        if self.model.suspended:
            assert admission.refusal == "METHOD_NOT_ALLOWED" and admission.event is None
            return
        expected = self.model.judge(ceilings, operation(number), self._now())
        assert admission.refusal is None
        assert list(admission.verdicts) == expected
        self._apply(admission.event)
        self.requests.append((number, tuple(ceilings), admission.verdicts, self._now()))
        shown = figures(self.account, self._moment())
        assert shown.credits_remaining == self.model.available
        assert shown.rate_remaining == RATE - self.model.seconds.get(self._now(), 0)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def hold_again(self, data: st.DataObject) -> None:
        """The same answer and no event, however much has happened since, as long as it is remembered."""
        index = data.draw(st.integers(0, len(self.requests) - 1))
        number, ceilings, verdicts, at = self.requests[index]
        if self._now() - at > HOLD_SECONDS // 2 or index < self.remembered_from or self.model.suspended:
            return
        self._begin()
        admission = decide_hold(self.account, hold(number, *ceilings), self._moment())
        assert (admission.refusal, admission.verdicts, admission.event) == (None, verdicts, None)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), share=st.sampled_from([4, 3, 2, 1, 0]))
    def settle(self, data: st.DataObject, share: int) -> None:
        """Any item of any request, held still or not, granted or not, charged or released, ended before or not."""
        request = self._pick(data, share)
        self._begin()
        model, now = self.model, self._now()
        key, charged = request.operation, request.charged
        if key in model.holds:
            expected = True
        elif key in model.voided:
            expected = charged == 0
        elif key in model.charged:
            expected = charged > 0
            if not expected:
                self._void(request)  # A release of what was posted gives it back.
                return
        elif key in model.released and now - model.released[key] < 2 * HOLD_SECONDS:
            expected = charged == 0
        elif charged == 0:
            expected = True
        elif now - request.held_at > 2 * HOLD_SECONDS:
            expected = False
        elif key in model.released:
            return  # May or may not be remembered still: either answer is right.
        else:
            expected = charged <= model.available
        settled = self._decide(decide_settle, request)
        assert settled == expected, (request, settled, expected)
        held = model.holds.pop(key, None)
        if not expected or key in model.charged or key in model.voided:
            return
        if charged:
            model.spend(charged)
            model.charged[key] = (charged, now)
        elif held is not None:
            model.released[key] = now

    @rule(number=st.integers(1, 5), ceiling=st.sampled_from([60, 25, 90]), ms=st.sampled_from([1, 30_000, 61_000]))
    def hold_and_wait(self, number: int, ceiling: int, ms: int) -> None:
        """Enough held at once that expiry, slots and late settles matter."""
        self.hold([ceiling] * number)
        self.advance(ms)

    @precondition(lambda self: self.model.batches)
    @rule(ceilings=st.lists(st.sampled_from([1, 25, 60, 150]), min_size=1, max_size=4))
    def hold_until_a_batch_expires(self, ceilings: list[int]) -> None:
        """Holds that are alive when the oldest batch expires, with younger batches behind it or without."""
        ends_at = min(self.model.batches)[0]
        self.advance(max(0, (ends_at - HOLD_SECONDS // 2) * 1_000 - self.now_ms))
        self.hold(ceilings)
        self.advance(max(0, ends_at * 1_000 - self.now_ms))
        self._begin()

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        request = self._pick(data, 0)
        self._begin()
        self._void(request)

    @rule(amount=st.sampled_from([1, 2, 10, 60, 500, -1, -7, -1000]))
    def adjust(self, amount: int) -> None:
        self._begin()
        self.adjusted += 1
        event = decide_adjust(self.account, amount, "test", b"adjust %d" % self.adjusted, self._moment())
        if amount > 0:
            self.model.grant(amount, self._now())
        else:
            amount = -min(-amount, self.model.available)
            if amount == 0:
                assert event is None
                return
            self.model.spend(-amount)
        assert event is not None and event.entry.amount == amount
        self._take(event)

    @rule(suspended=st.booleans())
    def suspend(self, suspended: bool) -> None:
        self._take(decide_status(self.account, "suspended" if suspended else "active"))
        self.model.suspended = suspended

    @rule(ms=st.sampled_from([1, 1_000, 20_000, 61_000, 130_000, 400_000, 850_000, 1_600_000]))
    def advance(self, ms: int) -> None:
        if ms > WRITE_SECONDS * 1_000:
            self.flush()  # A group is written by then, or forgotten; memory of its operations lasts much longer.
        self.now_ms += ms

    @rule(days=st.sampled_from([0, 1, 400, -1, -400]))
    def set_wall_clock(self, days: int) -> None:
        """On this process alone; 0 sets it right. Whatever happens meanwhile happens as if it were right, but nothing
        expires: the model knows the true time only."""
        self.ahead_ms = days * DAY_MS

    @rule(days=st.sampled_from([1, 400, -1, -400]))
    def set_every_clock_for_one_tick(self, days: int) -> None:
        """The database's too: they agree, and nothing may expire all the same."""
        if self.ahead_ms:
            return
        before = copy.deepcopy(self.account.purse)
        self.ahead_ms = self.database_ahead_ms = days * DAY_MS
        self.answer()
        for expired in decide_credit_expiry(self.account, self._moment(), self._agreed_ms()):
            self._take(expired)
        assert self.account.purse == before
        self.ahead_ms = self.database_ahead_ms = 0
        self.answer()
        self.settled_at = self._now() + SETTLING_SECONDS

    @rule()
    def answer(self) -> None:
        """The database answers, and tells its time."""
        database_ms = self.now_ms + self.database_ahead_ms
        self.clocks = after_answer(self.clocks, database_ms, self.now_ms + self.ahead_ms, self.now_ms, self.now_ms)

    @rule()
    def flush(self) -> None:
        """The group commit: what was decided becomes durable."""
        self.group.cut({ALICE: self.account})
        self.store.write_now(1, self.group)
        self.group = Write()
        self.durable = copy.deepcopy(self.model)

    @rule(ahead_seconds=st.sampled_from([0, 0, -140, 86_400]))
    def crash(self, ahead_seconds: int) -> None:
        """Memory is lost, with every hold and everything that was not written; the rest is loaded again, by a process
        whose clock may be 140 s behind or a day ahead."""
        self.ahead_ms = ahead_seconds * 1_000
        self.boot()
        self.group = Write()
        stored = self._stored()
        self.account = restore(stored, DEFAULTS, self._moment().steady)
        self.model = copy.deepcopy(self.durable)
        self.model.holds, self.model.seconds, self.model.released = {}, {}, {}
        self.remembered_from = len(self.requests)

    # --- what must always be true ---------------------------------------------------------------------------------

    @invariant()
    def counted(self) -> None:
        global steps_taken
        steps_taken += 1

    @invariant()
    def account_is_as_the_model_says(self) -> None:
        self.account.check()
        assert self.account.purse.balance == self.model.balance
        assert len(self.account.holds) == len(self.model.holds)
        assert [(batch.expires_at, batch.id, batch.remaining) for batch in self.account.purse.batches] == sorted(
            (end, number, left) for end, number, left in self.model.batches
        )

    @invariant()
    def the_ledger_stands_up_to_the_auditor(self) -> None:
        row = self.store.rows[ALICE]
        lines = [
            Line(*(getattr(entry, name) for name in entry.__struct_fields__), hash=after)
            for entry, after in row.entries
        ]
        audited, faults = audit(ALICE, lines, {number: batch.expires_at for number, batch in row.batches.items()})
        assert not faults, faults
        head = row.head
        assert (audited.balance, audited.consumed, audited.seq, audited.hash) == (
            head.balance,
            head.total_consumed,
            head.seq,
            head.hash,
        )
        assert audited.batches == {number: batch.remaining for number, batch in row.batches.items()}
        assert audited.charged == {key: credits for key, (credits, _) in self.durable.charged.items()}

    # --- how ------------------------------------------------------------------------------------------------------

    def _account(self) -> Account:
        return new_account(ALICE, Profile(created_at=START_MS // 1000), DEFAULTS)

    def _now(self) -> int:
        return self.now_ms // 1000

    def _moment(self) -> Moment:
        return Moment(self.now_ms + self.clocks.ledger_ms, self._now())

    def _agreed_ms(self) -> int | None:
        return agreed_ms(self.clocks, self.now_ms + self.ahead_ms, self.now_ms)

    def boot(self) -> None:
        """A process begins: it asks the database for the time, and lets nothing expire for ten minutes."""
        self.clocks = after_answer(None, self.now_ms, self.now_ms + self.ahead_ms, self.now_ms, self.now_ms)
        self.settled_at = self._now() + SETTLING_SECONDS

    def _stored(self) -> Stored:
        coroutine = self.store.load(ALICE, DEFAULTS.entries_since_ms(self.now_ms))
        try:
            while True:
                coroutine.send(None)
        except StopIteration as ended:
            assert ended.value is not None
            return ended.value

    def _begin(self) -> None:
        """Every turn begins with what is due."""
        if is_due(self.account, self._moment()):
            for ended in decide_hold_expiry(self.account, self._moment()):
                apply(self.account, ended)
            for expired in decide_credit_expiry(self.account, self._moment(), self._agreed_ms()):
                self._take(expired)
        self.model.pass_time(self._now(), self.ahead_ms == 0 and self._now() >= self.settled_at)

    def _apply(self, event: Admitted | None) -> None:
        if event is not None:
            apply(self.account, event)

    def _take(self, event: Event) -> None:
        apply(self.account, event)
        if isinstance(event, Moved | ProfileSet) or (isinstance(event, HoldEnded) and event.mark):
            assert self.group.add(self.account, event)

    def _pick(self, data: st.DataObject, share: int) -> SettleRequest:
        back = data.draw(st.integers(1, min(4, len(self.requests))))  # Older ones have nothing left to get wrong.
        number, ceilings, _, at = self.requests[-back]
        index = data.draw(st.integers(0, max(0, len(ceilings) - 1)))
        ceiling = ceilings[index] if ceilings else 0
        charged = ceiling * share // 4
        key = operation_at(operation(number), index)
        return SettleRequest(key, ALICE, 1, "getBalance", ceiling, charged, 0 if charged else 3, at)

    def _decide(self, decide: object, request: SettleRequest) -> bool:
        assert callable(decide)
        settlement = decide(self.account, request, self._moment())
        if settlement.ok is None:
            self._recall(request)
            settlement = decide(self.account, request, self._moment(), True)
        assert settlement.ok is not None
        if settlement.event is not None:
            self._take(settlement.event)
        return bool(settlement.ok)

    def _recall(self, request: SettleRequest) -> None:
        """As the shell does: ask the store, then memory decides."""
        row = self.store.rows[ALICE]
        voided = any((kind, request.operation) in row.marks for kind in (0, 1))
        debits = [entry for entry, _ in row.entries if entry.operation == request.operation and entry.amount < 0]
        if self.account.operations.get(request.operation) is None and (voided or debits):
            event = decide_recall(request.operation, Past(debits[0] if debits else None, voided), self._moment())
            assert event is not None
            apply(self.account, event)
        apply(self.account, BatchesRecalled(tuple(copy.copy(batch) for batch in row.batches.values())))

    def _void(self, request: SettleRequest) -> None:
        """Costs nothing afterwards, whatever was before, and is given back at most once."""
        key, model = request.operation, self.model
        assert self._decide(decide_void, request) or self._decide(decide_settle, request)
        held = model.holds.pop(key, None)
        credits, _ = model.charged.get(key, (0, 0))
        if credits:
            self._give_back(key, credits)
        if held is not None or key in model.charged or key not in model.released:
            model.voided.add(key)
            model.released.pop(key, None)

    def _give_back(self, key: bytes, credits: int) -> None:
        """To the batches it came from; what has less than the grace left makes a fresh one that lasts so long. The
        debit's entry says which batches; the auditor checks it."""
        entry = next(entry for _, entry, _ in reversed(self.group.entries) if entry.type != EntryType.FACT)
        assert (entry.amount, entry.operation) == (credits, key)
        homeless = 0
        debits = [debit for _, debit, _ in self.group.entries[:-1]]
        debits += [debit for debit, _ in self.store.rows[ALICE].entries]
        debit = next(row for row in debits if row.operation == key and row.amount < 0)
        for part in debit.parcels.split():
            number, delta = (int(piece) for piece in part.split(":"))
            homeless += self.model.give_back(number, -delta, self._now())
        if homeless:
            self.model.grant(homeless, self._now(), GRACE_SECONDS)
        self.model.charged[key] = (0, self._now())


def test_no_life_of_an_account_breaks_a_money_rule() -> None:
    """Money rules 1, 2, 3, 6 and 7 over at least 2,000 random steps, with loss of memory at any moment."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        AccountMachine, settings=settings(max_examples=150, stateful_step_count=60, suppress_health_check=slow)
    )
    assert steps_taken >= STEPS_MIN, steps_taken
