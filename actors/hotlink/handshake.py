"""How the two ends of a hot link prove to each other that they know the secret of the cluster.

Implements: design, section 2 (the link's first frames prove a secret of the cluster), in both directions.
Pure: nonces arrive as arguments. Who sends when is owner.py and edge.py.

    owner -> edge   OWNER_NONCE_BYTES, fresh for this connection
    edge -> owner   its name (PEER_BYTES), its nonce, and MAC("edge", owner's nonce, its nonce, its name)
    owner -> edge   MAC("owner", the same)

The MAC is HMAC-SHA-256 under the secret, which itself is never sent. A proof that was overheard is worth nothing on
another connection, as both nonces are in it; one end's proof sent back is not the other's, as the role is in it; and
whoever connects to an owner learns nothing made of the secret before it has proven that it knows it. An edge sends no
request before the owner's proof has come.

Why frames are tagged afterwards (frames.py), though the network is private: proofs alone would not keep out a
relay. An attacker on that network who takes over an owner's address, or stands between, could pass the greeting on
unchanged and then speak in both directions: hold and settle on any account without any credential, or tell an edge that
calls are paid. The keys of the tags are made of the secret and of this connection's nonces, so a relay that does not
know the secret can only pass frames on, or end the connection. Contents are not hidden: somebody who can read the
network sees public keys, hashes of API keys and session tokens, method names and balances, none of which opens a door.
The secret should have at least 128 bits of chance, as a proof that was overheard lets its holder try guesses at home;
the launcher makes one of 256.
"""

import hmac

NONCE_BYTES = 32
PEER_BYTES = 8
_MAC_BYTES = 32
EDGE_PROOF_BYTES = PEER_BYTES + NONCE_BYTES + _MAC_BYTES
OWNER_PROOF_BYTES = _MAC_BYTES
_EDGE, _OWNER = b"edge ", b"owner"  # Of one length, as all parts are: no two transcripts have the same bytes.


class Transcript:
    """What both ends have said on one connection; each proof is over all of it."""

    __slots__ = ("_said", "_secret", "edge_nonce", "peer")

    def __init__(self, secret: bytes, owner_nonce: bytes, edge_nonce: bytes, peer: bytes) -> None:
        assert (len(owner_nonce), len(edge_nonce), len(peer)) == (NONCE_BYTES, NONCE_BYTES, PEER_BYTES)
        self._secret, self.peer, self.edge_nonce = secret, peer, edge_nonce
        self._said = owner_nonce + edge_nonce + peer

    def edge_proof(self) -> bytes:
        """The frame with which the edge answers the owner's nonce."""
        return self.peer + self.edge_nonce + self._mac(_EDGE)

    def owner_proof(self) -> bytes:
        """The frame with which the owner answers the edge's proof."""
        return self._mac(_OWNER)

    def is_edge_proof(self, frame: bytes) -> bool:
        return hmac.compare_digest(frame, self.edge_proof())

    def is_owner_proof(self, frame: bytes) -> bool:
        return hmac.compare_digest(frame, self.owner_proof())

    def edge_key(self) -> bytes:
        """Seals the frames that the edge sends on this connection (32 bytes)."""
        return self._mac(b"edge's frames")

    def owner_key(self) -> bytes:
        """Seals the frames that the owner sends on this connection."""
        return self._mac(b"owner's frames")

    def _mac(self, role: bytes) -> bytes:
        return hmac.digest(self._secret, b"ledger-gateway hot link 2 " + role + self._said, "sha256")


def transcript_of(secret: bytes, owner_nonce: bytes, edge_frame: bytes) -> Transcript | None:
    """The owner's view: the nonce that it sent, and the edge's frame, which is not checked yet. None: a bad length."""
    if len(edge_frame) != EDGE_PROOF_BYTES:
        return None
    edge_nonce = edge_frame[PEER_BYTES : PEER_BYTES + NONCE_BYTES]
    return Transcript(secret, owner_nonce, edge_nonce, edge_frame[:PEER_BYTES])
