import base64
import json
from pathlib import Path
from typing import Any

import base58
import pytest
import zstandard
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, UPGRADEABLE_LOADER
from devnode.execution.dumps import LOADER, DumpError, load, overlaid
from devnode.execution.vm import Vm
from tests.devnode.local_node import LocalNode

MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
ADDRESS = Pubkey.from_bytes(b"\x61" * 32)
OWNER = Pubkey.from_bytes(b"\x62" * 32)
DATA = bytes(range(100))


def dump(**changed: Any) -> dict[str, Any]:
    account = {
        "lamports": 5_000_000,
        "data": [base64.b64encode(DATA).decode(), "base64"],
        "owner": str(OWNER),
        "executable": False,
        "rentEpoch": 18446744073709551615,
        "space": len(DATA),
    }
    return {"pubkey": str(ADDRESS), "account": account | changed}


def written(folder: Path, content: Any, name: str = "account.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "data",
    [
        [base64.b64encode(DATA).decode(), "base64"],
        [base58.b58encode(DATA).decode(), "base58"],
        [base64.b64encode(zstandard.compress(DATA)).decode(), "base64+zstd"],
    ],
)
def test_an_account_is_read_as_the_tools_write_it(tmp_path: Path, data: list[str]) -> None:
    ((pubkey, account),) = load((written(tmp_path, dump(data=data)),))
    assert pubkey == ADDRESS and account.data == DATA and account.owner == OWNER
    assert (account.lamports, account.executable) == (5_000_000, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "wanted the output of"),
        ({"pubkey": str(ADDRESS)}, "wanted the output of"),
        (dump() | {"pubkey": "x"}, "not an address"),
        (dump(owner=5), "not an address"),
        (dump(lamports="5"), "lamports"),
        (dump(lamports=0), "lamports"),
        (dump(lamports=2**64), "lamports"),
        (dump(executable=1), "executable"),
        (dump(data=["x", "hex"]), "not base58"),
        (dump(data=["*", "base64"]), "data"),
        (dump(data=["AAAA", "base64+zstd"]), "data"),
        (dump(data=5), "data"),
        (dump(executable=True, owner=str(LOADER)), "not a program"),
    ],
)
def test_an_error_names_the_unusable_file(tmp_path: Path, content: Any, said: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DumpError, match=said) as error:
        load((path,))
    assert str(path) in str(error.value)


def test_an_account_is_given_once(tmp_path: Path) -> None:
    paths = (written(tmp_path, dump(), "a.json"), written(tmp_path, dump(), "b.json"))
    with pytest.raises(DumpError, match="twice"):
        load(paths)
    with pytest.raises(DumpError, match="No such file"):
        load((tmp_path / "none",))


def test_a_real_program_runs_at_its_new_address(tmp_path: Path, local: LocalNode) -> None:
    """The memo program's code is taken from the VM and loaded at another address."""
    memo = Vm().account(MEMO)
    assert memo is not None
    (tmp_path / "memo.so").write_bytes(memo.data)
    ((pubkey, account),) = load((), (f"{ADDRESS}={tmp_path / 'memo.so'}",))
    assert pubkey == ADDRESS and account.executable
    local.chain.place(pubkey, account)
    payer = local.wallet()
    hello = Instruction(ADDRESS, b"hello", [AccountMeta(payer.pubkey(), True, False)])
    record = local.land(local.signed(payer, hello))
    assert record.meta.err is None and any("hello" in line for line in record.meta.logs)
    local.beat()
    again = local.restarted()
    hello = Instruction(ADDRESS, b"again", [AccountMeta(payer.pubkey(), True, False)])
    assert again.land(again.signed(payer, hello)).meta.err is None
    again.close()


def test_an_upgradeable_program_needs_its_data_and_survives_a_restart(tmp_path: Path, local: LocalNode) -> None:
    """The files are as dumped from a cluster: the program and the account of its code, in either order."""
    vm = Vm()
    token = vm.account(TOKEN_PROGRAM)
    assert token is not None
    code_at = Pubkey.from_bytes(token.data[4:36])
    code = vm.account(code_at)
    assert code is not None

    def as_dump(pubkey: Pubkey, account: Account, name: str) -> Path:
        shown = {
            "lamports": account.lamports,
            "data": [base64.b64encode(account.data).decode(), "base64"],
            "owner": str(account.owner),
            "executable": account.executable,
        }
        return written(tmp_path, {"pubkey": str(pubkey), "account": shown}, name)

    moved = Account(token.lamports, token.data[:4] + bytes(ADDRESS), UPGRADEABLE_LOADER, True, 0)
    program = Keypair().pubkey()
    program_file, code_file = as_dump(program, moved, "program.json"), as_dump(ADDRESS, code, "code.json")
    with pytest.raises(DumpError, match=str(ADDRESS)):
        load((program_file,))
    found = load((program_file, code_file))
    assert [pubkey for pubkey, _ in found] == [ADDRESS, program]
    for pubkey, account in found:
        local.chain.place(pubkey, account)
    local.beat()
    payer = local.wallet()
    again = local.restarted()
    record = again.land(again.signed(payer, Instruction(program, b"\xff", [])))
    # The token program ran: this is its own error for an unknown instruction.
    assert record.meta.err == {"InstructionError": [0, {"Custom": 12}]}, record.meta
    again.close()


@pytest.mark.parametrize("text", ["x", "=file", f"{ADDRESS}=", "x=file", f"{ADDRESS}=none"])
def test_a_program_is_an_address_and_a_file(text: str) -> None:
    with pytest.raises(DumpError, match="--program"):
        load((), (text,))


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk.so").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(DumpError, match="not a program that can be loaded"):
        load((), (f"{ADDRESS}={tmp_path / 'junk.so'}",))


def test_loaded_accounts_replace_those_of_the_genesis() -> None:
    old, new = (Account(lamports, b"", SYSTEM_PROGRAM, False, 0) for lamports in (1, 2))
    assert overlaid([(ADDRESS, old), (OWNER, old)], [(ADDRESS, new)]) == [(OWNER, old), (ADDRESS, new)]


def test_a_folder_of_accounts(tmp_path: Path) -> None:
    """Every .json file is an account; files with other endings and folders do not count."""
    other = Pubkey.new_unique()
    written(tmp_path, dump(), "b.json")
    written(tmp_path, dump() | {"pubkey": str(other)}, "a.json")
    written(tmp_path, "not an account", "README.md")
    (tmp_path / "deeper.json").mkdir()
    assert [pubkey for pubkey, _ in load(folders=(tmp_path,))] == [other, ADDRESS]


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"pubkey": str(ADDRESS)})])
def test_a_bad_file_of_a_folder_is_named(tmp_path: Path, content: str) -> None:
    written(tmp_path, dump(), "a.json")
    bad = written(tmp_path, content, "b.json")
    with pytest.raises(DumpError, match=f"--accounts {bad}: "):
        load(folders=(tmp_path,))


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A folder that is missing or empty is refused: an account that a test waits for would be absent without a word."""
    with pytest.raises(DumpError, match="No such file"):
        load(folders=(tmp_path / "none",))
    with pytest.raises(DumpError, match=r"no \.json file in it"):
        load(folders=(tmp_path,))
    first, second = written(tmp_path, dump(), "a.json"), written(tmp_path, dump(), "b.json")
    with pytest.raises(DumpError, match=f"{second}: {ADDRESS} is given twice, first by --accounts {first}"):
        load(folders=(tmp_path,))


def test_long_base58_is_refused_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, dump(data=["1" * 10_000_000, "base58"]))
    with pytest.raises(DumpError, match="too long for base58"):
        load((path,))
