"""Finds the account of a proof, and takes the nonce of a signed request.

Implements: interface, "Authentication", "Priority and failure"; money rule 11.
A shell: waits for the database, for sessions and for nonces. The gateway has verified signatures.
"""

import asyncio

from actors.accounts.account import Account
from actors.accounts.activations import Activations, NotHeld
from actors.accounts.api import OwnerUnavailable
from actors.accounts.child_adoption import ChildAdoption, ChildRefused
from actors.accounts.held_shards import HeldShards
from actors.accounts.nonce_writer import NonceWriter
from actors.accounts.nonces import Signed, signed_request
from actors.accounts.sessions import Sessions
from actors.calls import KeyProof, Proof, ProvenProof, SessionProof, WalletProof, shard_of_proof
from actors.errors import Err


class Credentials:
    def __init__(
        self,
        activations: Activations,
        sessions: Sessions,
        nonces: NonceWriter,
        held: HeldShards,
    ) -> None:
        self._activations, self.sessions, self.nonces = activations, sessions, nonces
        self._held = held
        self._children = ChildAdoption(activations)

    def known(self, proof: Proof) -> Account | None:
        """Return the account if all that this proof needs is in memory. Called for every call; awaits nothing."""
        kind = type(proof)
        if kind is KeyProof:
            return self._activations.by_key.get(proof.key_hash)  # type: ignore[union-attr]
        if kind is WalletProof:
            return self._activations.accounts.get(proof.pubkey) if self.nonces.is_open else None  # type: ignore[union-attr]
        if kind is ProvenProof:
            return self._activations.accounts.get(proof.pubkey)  # type: ignore[union-attr]
        pubkey = self.sessions.use(proof.token_hash)  # type: ignore[union-attr]
        return None if pubkey is None else self._activations.accounts.get(pubkey)

    async def find(self, proof: Proof, *, keep: bool = True) -> Account | Err | ChildRefused:
        """As `known`, but loads from the stores. Err: AUTH_FAILED, or PAYMENT_REQUIRED where there is no account.
        ChildRefused: a child key used for the first time, with which no call could begin now.

        keep False: for reading while the ledger does not commit; a loaded account is not kept in memory. Raises
        OwnerUnavailable, IdentityStoreUnavailable. The account was in memory, and may have been evicted since.
        """
        account = self.known(proof) if keep else None
        if account is not None:
            return account
        self._check_shard(proof)
        accounts = self._activations
        if isinstance(proof, KeyProof):
            load_by_key = accounts.load_by_key if keep else accounts.peek_by_key
            found = await load_by_key(proof.key_hash)
            if found is None and proof.child:
                if not keep:
                    raise OwnerUnavailable("a child key is taken up while the ledger commits")
                return await self._children.adopt(proof) or Err.AUTH_FAILED
            return found or Err.AUTH_FAILED
        pubkey = await self.sessions.find(proof.token_hash) if isinstance(proof, SessionProof) else proof.pubkey
        if pubkey is None:
            return Err.AUTH_FAILED
        account = await (accounts.load if keep else accounts.peek)(pubkey)
        if account is None:
            return Err.PAYMENT_REQUIRED
        if keep and isinstance(proof, WalletProof):
            await self.nonces.open()
        return account

    async def take_nonce(self, proof: Proof, operation: bytes, rate_limit: int) -> Err | None:
        """Take the nonce of a request that is not a call. Returns an Err when it may not be taken; raises
        IdentityStoreUnavailable.

        The account may have been evicted when this returns.
        """
        return await self.use(signed_request(proof), operation, rate_limit) if isinstance(proof, WalletProof) else None

    async def use(self, signed: Signed, operation: bytes, rate_limit: int) -> Err | None:
        await self.nonces.open()
        refusal = self.nonces.refusal(signed, operation, rate_limit)
        if refusal is not None:
            return refusal
        kept = self.nonces.take(signed, operation)
        if kept is not None:
            await asyncio.shield(kept)
        return None

    def _check_shard(self, proof: Proof) -> None:
        if not self._held.serves(shard_of_proof(proof)):
            raise NotHeld("this account has another owner; the request was sent to the wrong one")
