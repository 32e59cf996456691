"""From the proof that a door passes on to the account it speaks for.

Implements: interface, "Authentication", "Priority and failure"; decisions, money rule 11.
A shell: waits for the database, for sessions and for nonces. Signatures were verified by the door.
"""

import asyncio
from collections.abc import Sequence

from actors.accounts.account import Account, Admitted, Moment, NoncesRecalled, apply
from actors.accounts.activations import Activations
from actors.accounts.api import OwnerUnavailable
from actors.accounts.core import decide_nonce, decide_nonce_taken, decide_withdrawal
from actors.accounts.nonce_log import NonceLog
from actors.accounts.nonces import NONCE_SECONDS, stored_form
from actors.accounts.sessions import Sessions
from actors.calls import KeyProof, Proof, ProvenProof, SessionProof, WalletProof
from actors.clock import Clock
from actors.errors import Err
from actors.identity.store import IdentityStore, IdentityStoreUnavailable
from actors.units import VirtualShard, routing_bytes, virtual_shard


class Credentials:
    def __init__(
        self,
        activations: Activations,
        sessions: Sessions,
        store: IdentityStore,
        clock: Clock,
        shards: Sequence[VirtualShard],
    ) -> None:
        self._activations, self._sessions, self._store, self._clock = activations, sessions, store, clock
        self._shards = frozenset(shards)
        self.nonces = NonceLog(store, clock)

    def known(self, proof: Proof) -> Account | None:
        """The account, when it is in memory with all that this proof needs. The hot path: nothing is awaited."""
        kind = type(proof)
        if kind is KeyProof:
            return self._activations.by_key.get(proof.key_hash)  # type: ignore[union-attr]
        if kind is WalletProof:
            account = self._activations.accounts.get(proof.pubkey)  # type: ignore[union-attr]
            return account if account is not None and account.nonces_known else None
        if kind is ProvenProof:
            return self._activations.accounts.get(proof.pubkey)  # type: ignore[union-attr]
        pubkey = self._sessions.use(proof.token_hash)  # type: ignore[union-attr]
        return None if pubkey is None else self._activations.accounts.get(pubkey)

    async def find(self, proof: Proof) -> Account | Err:
        """As known, waiting for what is missing. Err: AUTH_FAILED, or PAYMENT_REQUIRED where there is no account.

        Raises OwnerUnavailable, IdentityStoreUnavailable. The account is in memory when this returns.
        """
        account = self.known(proof)
        if account is not None:
            return account
        self._check_shard(proof)
        if isinstance(proof, KeyProof):
            return await self._activations.load_by_key(proof.key_hash) or Err.AUTH_FAILED
        pubkey = await self._pubkey(proof)
        if pubkey is None:
            return Err.AUTH_FAILED
        account = await self._activations.load(pubkey)
        if account is None:
            return Err.PAYMENT_REQUIRED
        if isinstance(proof, WalletProof) and not account.nonces_known:
            await self.recall_nonces(account)
        return account

    async def peek(self, proof: Proof) -> Account | Err:
        """For reading an account while the ledger does not commit: like find, but nothing is kept in memory."""
        self._check_shard(proof)
        if isinstance(proof, KeyProof):
            return await self._activations.peek_by_key(proof.key_hash) or Err.AUTH_FAILED
        pubkey = await self._pubkey(proof)
        if pubkey is None:
            return Err.AUTH_FAILED
        account = await self._activations.peek(pubkey)
        if account is None:
            return Err.PAYMENT_REQUIRED
        if isinstance(proof, WalletProof) and not account.nonces_known:
            await self.recall_nonces(account)
        return account

    async def recall_nonces(self, account: Account) -> None:
        """Read back what was taken before this account was loaded. Raises IdentityStoreUnavailable."""
        if not self.nonces.available:
            raise IdentityStoreUnavailable("nonces cannot be kept for now")
        try:
            stored = await self._store.load_nonces(account.pubkey)
        except IdentityStoreUnavailable:
            self.nonces.failed()
            raise
        if not account.nonces_known:  # Two calls may have asked at once; what is taken since must stay.
            texts = tuple(text for text, _ in stored)
            apply(account, NoncesRecalled(texts, int(self._clock.monotonic())))

    async def take_nonce(self, account: Account, proof: Proof, operation: bytes, moment: Moment) -> Err | None:
        """For requests that are not calls. Err when it was used before; raises IdentityStoreUnavailable."""
        if not isinstance(proof, WalletProof):
            return None
        refusal = decide_nonce(account, proof.nonce, operation)
        if refusal is not None:
            return Err[refusal]
        event = decide_nonce_taken(operation, proof.nonce, moment)
        apply(account, event)
        await self.keep_nonce(account, event)
        return None

    async def keep_nonce(self, account: Account, event: Admitted) -> None:
        """Wait until the nonce of this admission is safe; take the admission back when it cannot be made so."""
        assert event.nonce is not None, event
        try:
            if not self.nonces.available:
                raise IdentityStoreUnavailable("nonces cannot be kept for now")
            kept = stored_form(event.nonce, event.operation)
            # Shielded: the future is everybody's who waits for this write, and one who leaves must not cancel it.
            await asyncio.shield(self.nonces.put(account.pubkey, kept, self._clock.now() + NONCE_SECONDS))
        except BaseException:
            apply(account, decide_withdrawal(event))
            raise

    async def _pubkey(self, proof: WalletProof | SessionProof | ProvenProof) -> bytes | None:
        return await self._sessions.find(proof.token_hash) if isinstance(proof, SessionProof) else proof.pubkey

    def _check_shard(self, proof: Proof) -> None:
        routing = proof.routing if isinstance(proof, KeyProof | SessionProof) else routing_bytes(proof.pubkey)
        if virtual_shard(routing) not in self._shards:
            raise OwnerUnavailable("this account has another owner; the request was sent to the wrong one")
