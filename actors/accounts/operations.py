"""What the owner of an account is asked for work that no client's call waits for, such as a delivery.

Implements: money rule 1. An operation is named by its work, so it is charged once for ever, however often it is asked
for. No rules live here: holds_of_work.py decides, operation_commands.py carries out.
"""

from actors.accounts.api import OfAccount
from actors.growing import Growing


class HoldOperations(Growing, OfAccount[tuple[bool, ...]], frozen=True):
    """Set credits aside before the work is begun: credits_each for each operation, for the `hold_seconds` of the owner.

    operations: OPERATION_BYTES each. Value: for each whether the work may be begun: held now, or charged before and the
    balance covers it once more. Asked again, a hold lasts anew. ChargeOperations ends it, else its time.
    ACCOUNT_NOT_FOUND; METHOD_NOT_ALLOWED for a suspended account. price_list: by which credits_each was found; where
    the account has another one, the refusal is OTHER_PRICES, its detail the name of that one, and nothing is held.
    """

    operations: tuple[bytes, ...]
    credits_each: int
    price_list: str = ""


class ChargeOperations(OfAccount[tuple[bool, ...]], frozen=True):
    """Charge for work that is done, each operation once for ever; `released`: holds of work that is not to be charged.

    operations: OPERATION_BYTES each. Value: for each whether it is charged, now or before; False: nothing is held for
    it, and the available credits do not cover it. ACCOUNT_NOT_FOUND. A suspended account pays what is held, and
    METHOD_NOT_ALLOWED is the reply where nothing is.
    """

    operations: tuple[bytes, ...]
    method: str
    credits_each: int
    released: tuple[bytes, ...] = ()
