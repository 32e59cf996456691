"""Records a child key when it is presented for the first time; from then on it is a key of its account like others.

Implements: decisions, "Named keys". A shell: child_admission.py decides. A child gets its number before its first call
begins, and durably: a successor that did not know the number could not enforce a budget.
"""

import asyncio
import logging
from typing import NamedTuple

from actors.accounts.account import Account, apply
from actors.accounts.activations import Activations
from actors.accounts.child_admission import Adoption, decide_adoption
from actors.accounts.child_keys import ChildKey, read_child
from actors.accounts.named_keys import Path
from actors.calls import KeyProof
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)


_DETAILS = {Err.METHOD_NOT_ALLOWED: "this account is suspended"}
_REFUSED = b"child"  # Prefix of a refused text's hash, in the map of unknown keys.


class ChildRefused(NamedTuple):
    """The child key cannot be recorded now. path: of the key whose figures the refusal tells."""

    refusal: Refusal
    account: Account
    path: Path


Adopted = Account | ChildRefused | None


class ChildAdoption:
    def __init__(self, activations: Activations) -> None:
        self._activations = activations
        self._under_way: dict[KeyProof, asyncio.Task[Adopted]] = {}

    async def adopt(self, proof: KeyProof) -> Adopted:
        """Record the child key, and return its account. None: no account has the key, or it is not valid from this
        address now; a fault of the text alone is remembered for a while. Raises OwnerUnavailable.

        Requests of the same client with the same text share one check.
        """
        name = _REFUSED + proof.key_hash
        if self._activations.is_unknown(name):
            return None
        task = self._under_way.get(proof)
        if task is None:
            task = self._under_way[proof] = asyncio.create_task(self._adopt(proof, name))
            task.add_done_callback(lambda ended: self._ended(proof, ended))
        return await asyncio.shield(task)

    def _ended(self, proof: KeyProof, task: "asyncio.Task[Adopted]") -> None:
        del self._under_way[proof]
        if not task.cancelled():
            # Marks the exception as retrieved: waiting callers raise it, and without callers it needs no warning.
            task.exception()

    async def _adopt(self, proof: KeyProof, name: bytes) -> Adopted:
        child = read_child(proof.child)
        account = None if child is None else await self._activations.load_by_root(child.root, child.routing)
        if child is None or account is None:
            self._activations.remember_unknown(name)
            return None
        if self._activations.is_unknown(name):
            return None  # The same text was refused in the meantime, from another address.
        # The turn: nothing is awaited from here until all its blocks are recorded.
        self._activations.check_current(account)
        adoption = self._decide(account, child, proof)
        if adoption.is_lasting:
            self._activations.remember_unknown(name)
        if adoption.refusal is Err.AUTH_FAILED:
            return None
        if adoption.refusal is not None:
            refusal = Refusal(adoption.refusal, _DETAILS.get(adoption.refusal, ""))
            return ChildRefused(refusal, account, adoption.path)
        written = self._record(account, adoption)
        if written is not None:
            await asyncio.shield(written)
        else:  # Another request records the child at the same time.
            await self._activations.until_written(account.pubkey)
        self._activations.know_key(account, proof.key_hash)
        return account

    def _decide(self, account: Account, child: ChildKey, proof: KeyProof) -> Adoption:
        moment = self._activations.moment()
        account.used_at = moment.steady
        self._activations.end_due(account, moment)
        adoption = decide_adoption(account, child, proof, moment)
        if adoption.lacks_room:
            logger.warning("a key of account %s gets no more children", account.pubkey.hex())
        return adoption

    def _record(self, account: Account, adoption: Adoption) -> "asyncio.Future[None] | None":
        if adoption.unit is not None:
            apply(account, adoption.unit)
        written = None
        for profile in adoption.profiles:
            written = self._activations.record_key(account, profile)
        return written
