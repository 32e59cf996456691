from solders.account import Account
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.configs import decode_fee_config, decode_global, decode_quote_control
from devnode.encoding.addresses import UPGRADEABLE_LOADER
from devnode.execution.vm import Vm
from devnode.launchpad.genesis import (
    IMITATED,
    fee_config,
    global_config,
    is_imitated,
    launch_accounts,
    program_account,
    program_data_address,
)


def test_all_fixed_accounts_of_a_trade_exist() -> None:
    """They have mainnet's values and are rent-exempt."""
    accounts, vm = dict(launch_accounts()), Vm()
    assert decode_global(accounts[addresses.GLOBAL].data) == global_config()
    assert decode_fee_config(accounts[addresses.CURVE_FEE_CONFIG].data) == fee_config()
    control = decode_quote_control(accounts[addresses.QUOTE_CONTROL].data)
    assert control is not None and len(control.mints) == 1
    for pubkey, account in accounts.items():
        assert account.lamports >= vm.rent_exempt_lamports(len(account.data)), pubkey
    recipients = {
        *addresses.NORMAL_FEE_RECIPIENTS,
        *addresses.RESERVED_FEE_RECIPIENTS,
        *addresses.BUYBACK_FEE_RECIPIENTS,
    }
    assert recipients <= accounts.keys()


def test_program_accounts_look_as_on_a_real_cluster() -> None:
    """Owner, executable flag and the 36 bytes that point to the program data are as on a cluster."""
    for program in IMITATED:
        account = program_account(program)
        assert account.executable and account.owner == UPGRADEABLE_LOADER and len(account.data) == 36
        assert account.data[4:] == bytes(program_data_address(program)) and account.lamports == 1_141_440


def test_the_program_is_imitated_while_its_code_is_missing() -> None:
    class Held(dict[Pubkey, Account]):
        def account(self, pubkey: Pubkey) -> Account | None:
            return self.get(pubkey)

    held = Held()
    assert not is_imitated(held)
    held[addresses.PUMP] = program_account(addresses.PUMP)
    assert is_imitated(held)
    held[program_data_address(addresses.PUMP)] = Account(1, b"code", UPGRADEABLE_LOADER, False, 0)
    assert not is_imitated(held)
    held[addresses.PUMP] = Account(1, b"", UPGRADEABLE_LOADER, False, 0)
    assert not is_imitated(held)
