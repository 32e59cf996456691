"""The imitated programs, and how one instruction of each is performed.

Implements: which program handles which instruction; the log lines around an instruction; errors for instructions that
are not imitated. A router performs instructions of the other programs inside its own (routing.py).
Not here: the whole transaction (imitation.py), the effects (creating.py, trading.py and others).
"""

from collections.abc import Callable

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import PUMP, PUMP_AMM
from actors.launch_programs.cpmm import CPMM, CpmmKind
from actors.launch_programs.instructions import TRADES, Kind, kind_of
from actors.launch_programs.pool_trades import pool_kind_of
from devnode.encoding.transaction_errors import instruction_error_text
from devnode.launchpad import routing
from devnode.launchpad.cpmm_pools import create_pool, swap
from devnode.launchpad.creating import create, extend_account, init_user_volume_accumulator
from devnode.launchpad.faults import Fault
from devnode.launchpad.genesis import ReadsAccounts, is_imitated
from devnode.launchpad.migrating import migrate
from devnode.launchpad.pool_trading import trade_in_pool
from devnode.launchpad.stage import Stage
from devnode.launchpad.trading import trade

NOTICE = "devnode: the effects of this program are imitated"
Handler = Callable[[Stage], None]
_LAUNCHES: dict[Kind, Callable[[Stage, Kind], None]] = {
    Kind.CREATE: create,
    Kind.CREATE_V2: create,
    Kind.EXTEND_ACCOUNT: extend_account,
    Kind.INIT_USER_VOLUME_ACCUMULATOR: init_user_volume_accumulator,
    Kind.MIGRATE: migrate,
    Kind.MIGRATE_V2: migrate,
    **dict.fromkeys(TRADES, trade),
}


def is_performed(vm: ReadsAccounts, program: Pubkey) -> bool:
    """Whether devnode performs the program's instructions: no real program is loaded at its address."""
    return program in _HANDLERS and is_imitated(vm, program)


def perform(stage: Stage) -> Fault | None:
    """Perform the stage's instruction. Returns the fault with which it failed; its changes are then undone later."""
    try:
        _HANDLERS[stage.program](stage)
        stage.finish()
    except Fault as fault:
        return fault
    except OverflowError:  # The real programs check their arithmetic too, and fail with this error.
        return Fault.number(6024)
    return None


def lines_of(stage: Stage, fault: Fault | None) -> list[str]:
    """The log lines of a performed instruction, as the runtime wraps them."""
    program = stage.program
    lines = [f"Program {program} invoke [{stage.depth}]", *stage.logs]
    if fault is not None:
        lines += fault.lines
    lines.append(f"Program {program} consumed {stage.units} of {stage.units_max} compute units")
    if fault is None or fault.whole is not None:
        return [*lines, f"Program {program} success"]
    return [*lines, f"Program {program} failed: {instruction_error_text(fault.cause)}"]


def _announce(stage: Stage, title: str) -> None:
    stage.log(f"Instruction: {title}")
    stage.log(NOTICE)


def _launch_platform(stage: Stage) -> None:
    kind = kind_of(stage.data)
    handler = None if kind is None else _LAUNCHES.get(kind)
    if kind is None or handler is None:
        raise _unknown(None if kind is None else kind.title)
    _announce(stage, kind.title)
    handler(stage, kind)


def _pools(stage: Stage) -> None:
    kind = pool_kind_of(stage.data)
    if kind is None:
        raise _unknown(None)
    _announce(stage, kind.title)
    trade_in_pool(stage, kind)


def _cpmm(stage: Stage) -> None:
    kind = next((kind for kind in CpmmKind if kind.value == stage.data[:8]), None)
    if kind is None:
        raise _unknown(None)
    _announce(stage, kind.title)
    if kind is CpmmKind.INITIALIZE:
        create_pool(stage)
    else:
        swap(stage, kind)


def _router(stage: Stage) -> None:
    _announce(stage, "Route")
    routing.route(stage, _perform_inside, lambda program: is_performed(stage.vm, program))


def _perform_inside(inner: Stage) -> tuple[Fault | None, list[str]]:
    fault = perform(inner)
    return fault, lines_of(inner, fault)


def _unknown(title: str | None) -> Fault:
    fault = Fault.number(101)
    if title is None:
        return fault
    line = f"Program log: devnode does not imitate {title}; run it against the real program (--program)"
    return Fault(fault.cause, (line, *fault.lines))


_HANDLERS: dict[Pubkey, Handler] = {
    PUMP: _launch_platform,
    PUMP_AMM: _pools,
    CPMM: _cpmm,
    routing.ROUTER: _router,
}
PERFORMED = tuple(_HANDLERS)
PERFORMED_BYTES = tuple(map(bytes, PERFORMED))
