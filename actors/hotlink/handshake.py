"""Proves to each end of a hot link that the other end knows the secret of the cluster.

Implements: design, "Measured facts" (the link's first frames prove a secret of the cluster), in both directions.
Pure: nonces arrive as arguments. owner.py and replica.py send the frames.

    owner -> replica   OWNER_NONCE_BYTES, fresh for this connection
    replica -> owner   its name (PEER_BYTES), its nonce, and MAC("edge", owner's nonce, its nonce, its name)
    owner -> replica   MAC("owner", the same)

The MAC is HMAC-SHA-256 under the secret, which is never sent. A recorded proof is useless on another connection,
because it covers both nonces. A proof sent back to its sender is invalid, because it covers the role. An owner sends
nothing derived from the secret before the replica has proven that it knows the secret. A replica sends no request
before the owner's proof has arrived.

Frames are tagged after the greeting (frames.py), because proofs alone do not keep out a relay. An attacker on the
private network who takes over an owner's address could forward the greeting unchanged and then send frames in both
directions: hold and settle on any account without a credential, or tell a replica that calls are paid. The keys of the
tags are derived from the secret and the nonces of the connection, so a relay without the secret can only forward frames
or end the connection. Contents are not encrypted: a reader of the network sees public keys, hashes of API keys and
session tokens, method names and balances, none of which gives access. The secret should have at least 128 random bits,
because a recorded proof allows guesses offline; the launcher makes 256.
"""

import hmac

NONCE_BYTES = 32
PEER_BYTES = 8
_MAC_BYTES = 32
REPLICA_PROOF_BYTES = PEER_BYTES + NONCE_BYTES + _MAC_BYTES
OWNER_PROOF_BYTES = _MAC_BYTES
# Each part has a fixed length, so no two transcripts have the same bytes. On the wire a replica is an "edge", its older
# name: replicas and owners of two versions meet while an update rolls out.
_REPLICA, _OWNER = b"edge ", b"owner"


class Transcript:
    """The greeting of one connection; each proof covers all of it."""

    __slots__ = ("_said", "_secret", "peer", "replica_nonce")

    def __init__(self, secret: bytes, owner_nonce: bytes, replica_nonce: bytes, peer: bytes) -> None:
        assert (len(owner_nonce), len(replica_nonce), len(peer)) == (NONCE_BYTES, NONCE_BYTES, PEER_BYTES)
        self._secret, self.peer, self.replica_nonce = secret, peer, replica_nonce
        self._said = owner_nonce + replica_nonce + peer

    def replica_proof(self) -> bytes:
        """Build the frame with which the replica answers the owner's nonce."""
        return self.peer + self.replica_nonce + self._mac(_REPLICA)

    def owner_proof(self) -> bytes:
        """Build the frame with which the owner answers the replica's proof."""
        return self._mac(_OWNER)

    def is_replica_proof(self, frame: bytes) -> bool:
        return hmac.compare_digest(frame, self.replica_proof())

    def is_owner_proof(self, frame: bytes) -> bool:
        return hmac.compare_digest(frame, self.owner_proof())

    def replica_key(self) -> bytes:
        """Derive the key for the tags of the replica's frames on this connection (32 bytes)."""
        return self._mac(b"edge's frames")

    def owner_key(self) -> bytes:
        """Derive the key for the tags of the owner's frames on this connection."""
        return self._mac(b"owner's frames")

    def _mac(self, role: bytes) -> bytes:
        return hmac.digest(self._secret, b"ledger-gateway hot link 2 " + role + self._said, "sha256")


def transcript_of(secret: bytes, owner_nonce: bytes, replica_frame: bytes) -> Transcript | None:
    """Make the owner's transcript from its nonce and the replica's frame, still unchecked. None: a bad length."""
    if len(replica_frame) != REPLICA_PROOF_BYTES:
        return None
    replica_nonce = replica_frame[PEER_BYTES : PEER_BYTES + NONCE_BYTES]
    return Transcript(secret, owner_nonce, replica_nonce, replica_frame[:PEER_BYTES])
