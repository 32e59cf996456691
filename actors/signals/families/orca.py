"""Orca's Whirlpools: new pools and swaps.

Implements: interface, "Signal kinds" (newPair, largeSwap), for program whir...yCc. A swap over two pools is not read.
Pure.
"""

from actors.signals.observations import Reader, instruction
from actors.signals.pools import creation, swap
from actors.signals.transaction import known_key

PROGRAM = known_key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
READERS: dict[bytes, Reader] = {
    instruction("initialize_pool"): creation(pool=4, first=1, second=2),
    instruction("initialize_pool_v2"): creation(pool=6, first=1, second=2),
    instruction("initialize_pool_with_adaptive_fee"): creation(pool=7, first=1, second=2),
    instruction("swap"): swap(pool=2, wallet=1, wallet_tokens=(3, 5)),
    instruction("swap_v2"): swap(pool=4, wallet=3, wallet_tokens=(7, 9)),
}
