"""Gives each account's calls a preferred replica, so that few replicas talk to each owner and their frames are large.

Implements: design, "Owners, for every kind of actor". Pure, and imports only the standard library (front/process.py).
A replica and an owner exchange frames of everything that waits (hotlink), so a call is cheaper where more calls pass
the same link. The account of a credential is one of 1,024 virtual shards. Owners have them in blocks, in their order
(ownership/spread.py), and so have the replicas here: R replicas and S owners then use at most R + S - 1 links in place
of R x S. No state is in a replica, so nothing is lost when the blocks change with the number of replicas.

A credential that names no shard, or that is none, prefers nobody: the replica with the fewest requests gets the call,
as without these rules. So does a call whose replica has more than its share already: what a client writes into a
credential chooses a replica only while that one is not busier than the others.
"""

from collections.abc import Iterator, Sequence

from actors.launch.front.config import by_section

VIRTUAL_SHARDS = 1024  # Equal to units.py; a test compares both, and each expression below with the product's own.
# A replica is preferred while it has less than 1.25 times the mean of requests, and the slack. The slack lets the few
# calls of a quiet time go together, too.
BUSY_NUMERATOR, BUSY_DENOMINATOR, SLACK_REQUESTS = 5, 4, 8
_FRONTEND, _BACKENDS = "frontend http_frontend", "backend http-"
# The last two of an account's eight routing bytes: of a key, which is "srpc_live_" and 43 characters of base64, and of
# 64 hexadecimal characters, a session token or a legacy key.
_OF_KEY = f"bytes(18,3),concat(A),ub64dec,bytes(0,2),be2dec(,2),mod({VIRTUAL_SHARDS})"
_KEY_LENGTH, _HEX_LENGTH, _BEARER_LENGTH = 53, 64, 71
_UNKNOWN = "!{ var(txn.shard) -m found }"


def with_affinity(text: str) -> str:
    """Return the configuration in which each replica of two or more is preferred for its block of shards.

    Spares get calls only when nobody else can, so they are not counted.
    """
    servers = _servers_of(text)
    if not servers:
        return text
    lines: list[str] = []
    section = ""
    for starts, line in by_section(text):
        if starts != section:
            lines += _use_server(servers.get(section, ()))
            section = starts
        lines.append(line)
        if line.strip() == _FRONTEND:
            lines += _shard_of_request()
    return "\n".join((*lines, *_use_server(servers.get(section, ())))) + "\n"


def _servers_of(text: str) -> dict[str, list[str]]:
    """Return the names of the servers that get calls, by backend; of backends with several. Their order is equal on all
    machines."""
    found: dict[str, list[str]] = {}
    for section, line in by_section(text):
        words = line.split()
        if section.startswith(_BACKENDS) and words[:1] == ["server"] and "backup" not in words:
            found.setdefault(section, []).append(words[1])
    return {section: sorted(names) for section, names in found.items() if len(names) > 1}


def _shard_of_request() -> Iterator[str]:
    """Set the shard from the credential that the gateway would look at first (identity/credentials.py).

    A WebSocket stays where it is for hours, so it goes where there are fewest. A wallet's signature names no shard.
    """
    unless = "!{ req.hdr(upgrade) -m found }"
    for source in ("req.hdr(x-api-key)", "urlp(api-key)"):
        yield f"    http-request set-var(txn.shard) {source},{_OF_KEY} if {unless} {_UNKNOWN} " + (
            f"{{ {source} -m beg srpc_live_ }} {{ {source} -m len {_KEY_LENGTH} }}"
        )
    for source, first, length in (
        ("req.hdr(x-api-key)", 12, _HEX_LENGTH),
        ("req.hdr(authorization)", _BEARER_LENGTH - _HEX_LENGTH + 12, _BEARER_LENGTH),
    ):
        yield (
            f"    http-request set-var(txn.shard) {source},bytes({first},4),hex2i,mod({VIRTUAL_SHARDS}) "
            f"if {unless} {_UNKNOWN} {{ {source} -m len {length} }}"
        )


def _use_server(names: Sequence[str]) -> Iterator[str]:
    if not names:
        return
    count = len(names)
    yield f"    http-request set-var(txn.all) be_conn,mul({BUSY_NUMERATOR})"
    for place, name in enumerate(names):
        first, after = (-(-VIRTUAL_SHARDS * border // count) for border in (place, place + 1))
        room = (
            f"{{ srv_conn({name}),mul({BUSY_DENOMINATOR * count}),sub(txn.all) "
            f"lt {BUSY_DENOMINATOR * count * SLACK_REQUESTS} }}"
        )
        yield f"    use-server {name} if {{ var(txn.shard) -m int {first}:{after - 1} }} {room}"
