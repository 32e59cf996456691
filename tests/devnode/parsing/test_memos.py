from solders.instruction import Instruction
from solders.pubkey import Pubkey

from devnode.parsing.memos import memo_text
from tests.devnode.encoding.test_wire import MEMO
from tests.devnode.local_node import LocalNode, give


def test_memos_are_shown_with_their_length(local: LocalNode) -> None:
    payer = local.wallet()
    record = local.land(local.signed(payer, Instruction(MEMO, "é".encode(), []), Instruction(MEMO, b"two", [])))
    assert memo_text(record) == "[2] é; [3] two"


def test_no_memo_is_none(local: LocalNode) -> None:
    payer = local.wallet()
    assert memo_text(local.land(local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000)))) is None
