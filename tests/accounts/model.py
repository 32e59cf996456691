"""What an account must be, by the money rules: slow and plain, without any of the code it judges."""

from dataclasses import dataclass, field

from actors.calls import operation_at

RATE, SLOTS, HOLD_SECONDS, LIFE_SECONDS = 7, 5, 60, 5_000
GRACE_SECONDS = 3_600


@dataclass
class Model:
    """What the account must be. Credits as a list of [expires_at, number, left]."""

    batches: list[list[int]] = field(default_factory=list)
    made: int = 0
    ends: dict[int, int] = field(default_factory=dict)  # When each batch expires, spent ones too.
    holds: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # Ceiling, when it ends.
    charged: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # Credits, when; refunds take them to 0.
    voided: set[bytes] = field(default_factory=set)
    released: dict[bytes, int] = field(default_factory=dict)
    seconds: dict[int, int] = field(default_factory=dict)
    suspended: bool = False

    @property
    def balance(self) -> int:
        return sum(left for _, _, left in self.batches)

    @property
    def available(self) -> int:
        return self.balance - sum(ceiling for ceiling, _ in self.holds.values())

    def pass_time(self, now: int, clocks_agree: bool) -> None:
        """Holds end. Where the clocks agree, expired batches lose all that the holds which are left do not need."""
        self.holds = {key: row for key, row in self.holds.items() if row[1] > now}
        if not clocks_agree:
            return
        expired = [batch for batch in sorted(self.batches) if batch[0] <= now]
        lost = max(0, sum(batch[2] for batch in expired) - sum(ceiling for ceiling, _ in self.holds.values()))
        for batch in expired:
            taken = min(batch[2], lost)
            batch[2] -= taken
            lost -= taken
        self.batches = [batch for batch in self.batches if batch[2]]

    def spend(self, amount: int) -> None:
        for batch in sorted(self.batches):
            taken = min(batch[2], amount)
            batch[2] -= taken
            amount -= taken
        assert amount == 0
        self.batches = [batch for batch in self.batches if batch[2]]

    def grant(self, amount: int, now: int, life: int = LIFE_SECONDS) -> None:
        self.made += 1
        self.ends[self.made] = now + life
        self.batches.append([now + life, self.made, amount])

    def give_back(self, number: int, amount: int, now: int) -> int:
        """To the batch it came from, if that has the grace left, spent or not. Gives what needs a batch of its own."""
        if self.ends[number] < now + GRACE_SECONDS:
            return amount
        row = next((batch for batch in self.batches if batch[1] == number), None)
        if row is None:
            row = [self.ends[number], number, 0]
            self.batches.append(row)
        row[2] += amount
        return 0

    def judge(self, ceilings: list[int], first: bytes, now: int) -> list[str | None]:
        verdicts: list[str | None] = []
        for index, ceiling in enumerate(ceilings):
            if self.seconds.get(now, 0) >= RATE:
                verdicts.append("RATE_LIMITED")
                continue
            if ceiling and len(self.holds) >= SLOTS:
                verdicts.append("CONCURRENCY_LIMITED")
                continue
            if ceiling > self.available:
                verdicts.append("INSUFFICIENT_CREDITS")
                continue
            self.seconds[now] = self.seconds.get(now, 0) + 1
            if ceiling:
                self.holds[operation_at(first, index)] = (ceiling, now + HOLD_SECONDS)
            verdicts.append(None)
        return verdicts
