"""Instructions made by hand, whose account at a position is known by its number."""

from actors.signals.classify import observe
from actors.signals.observations import WSOL, Observation
from actors.signals.transaction import SELF_CPI_PREFIX, Instruction, known_key
from tests.signals import samples

TOKENS = known_key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")


def key(number: int) -> bytes:
    return bytes([1, number]) * 16


def numbered(program: bytes, data: bytes, count: int = 30, put: dict[int, bytes] | None = None) -> Instruction:
    """An instruction whose account at position n is key(n), except where `put` says otherwise."""
    accounts = tuple((put or {}).get(place, key(place)) for place in range(count))
    return Instruction(program, accounts, data, 0, 1)


def transfer(source: bytes, destination: bytes, mint: bytes, amount: int, height: int = 2) -> Instruction:
    data = b"\x0c" + amount.to_bytes(8, "little") + b"\x06"
    return Instruction(TOKENS, (source, mint, destination), data, 0, height)


def emitted(program: bytes, body: bytes, height: int = 2) -> Instruction:
    return Instruction(program, (key(200),), SELF_CPI_PREFIX + body, 0, height)


def seen(*instructions: Instruction) -> list[Observation]:
    return list(observe(samples.of_instructions(instructions)))


def bought(program: bytes, data: bytes, wallet_in: int, wallet_out: int, count: int = 30) -> Observation:
    """What is seen of a swap of 5 SOL for a coin, between the trader's accounts at these positions and two vaults."""
    coin = key(99)
    (found,) = seen(
        numbered(program, data, count),
        transfer(key(wallet_in % count), key(120), WSOL, 5_000_000_000),
        transfer(key(121), key(wallet_out % count), coin, 777),
    )
    assert (found.mint, found.is_buy, found.lamports) == (coin, True, 5_000_000_000)
    return found
