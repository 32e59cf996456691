"""Commands to the owner of an account for background work, such as a delivery.

Implements: money rule 1. An operation's id derives from its work, so it is charged once for ever, however often the
command repeats. No rules live here: holds_of_work.py decides, operation_commands.py carries out.
"""

from actors.accounts.api import OfAccount
from actors.growing import Growing


class HoldOperations(Growing, OfAccount[tuple[bool, ...]], frozen=True):
    """Hold credits before the work begins: credits_each for each operation, for the `hold_seconds` of the owner.

    operations: OPERATION_BYTES each. Value: for each whether the work may begin: held now, or charged before and the
    balance covers it once more. Repeating the command renews a hold. ChargeOperations or expiry ends it.
    ACCOUNT_NOT_FOUND; METHOD_NOT_ALLOWED for a suspended account. price_list: the list that gave credits_each. If the
    account has another list, the refusal is OTHER_PRICES with that list's name as detail, and nothing is held.
    """

    operations: tuple[bytes, ...]
    credits_each: int
    price_list: str = ""


class ChargeOperations(OfAccount[tuple[bool, ...]], frozen=True):
    """Charge for completed work, each operation once for ever. released: operations whose holds end without a charge.

    operations: OPERATION_BYTES each. Value: for each whether it is charged, now or before; False: nothing is held for
    it, and the available credits do not cover it. ACCOUNT_NOT_FOUND. A suspended account pays from its holds; without a
    hold the reply is METHOD_NOT_ALLOWED.
    """

    operations: tuple[bytes, ...]
    method: str
    credits_each: int
    released: tuple[bytes, ...] = ()
