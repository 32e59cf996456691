"""Which programs are imitated, and what the log says of their instructions."""

from solders.account import Account
from solders.instruction import AccountMeta, Instruction

from actors.launch_programs.addresses import PUMP, PUMP_AMM, TOKEN_PROGRAM
from devnode.encoding.addresses import UPGRADEABLE_LOADER
from devnode.launchpad.genesis import IMITATED, program_data_address
from devnode.launchpad.programs import NOTICE, PERFORMED, is_performed
from tests.devnode.pad import Pad


def test_every_performed_program_has_an_account_without_code(pad: Pad) -> None:
    """Clients see programs; a real program at an address ends the imitation of that program alone."""
    vm = pad.local.chain.vm
    assert set(PERFORMED) <= set(IMITATED)
    assert all(is_performed(vm, program) for program in PERFORMED)
    assert not is_performed(vm, TOKEN_PROGRAM)
    vm.put(program_data_address(PUMP_AMM), Account(10**9, b"code", UPGRADEABLE_LOADER, False, 0))
    assert [program for program in PERFORMED if not is_performed(vm, program)] == [PUMP_AMM]


def test_unknown_instructions_fail_as_on_the_chain(pad: Pad) -> None:
    """Each program refuses data that is none of its instructions, without the notice of an imitated effect."""
    user = pad.user.pubkey()
    for program in PERFORMED:
        record = pad.record(Instruction(program, b"\\x00" * 8, [AccountMeta(user, True, True)]))
        assert record.meta.err == {"InstructionError": [0, {"Custom": 101}]}, program
        assert f"Program {program} invoke [1]" in record.meta.logs
    meta = pad.land(pad.creation(user), signers=())
    assert any(NOTICE in line for line in meta.logs) and f"Program {PUMP} invoke [1]" in meta.logs
