"""Raydium's CPMM and CLMM: new pools and swaps.

Implements: interface, "Signal kinds", for programs CPMM...P1C and CAMM...rWqK. Their swap events are log text, so the
amounts come from the token transfers.
Pure.
"""

from actors.launch_programs import cpmm
from actors.signals.observations import Reader, instruction
from actors.signals.pools import creation, swap
from actors.signals.transaction import known_key

CPMM = bytes(cpmm.CPMM)
CLMM = known_key("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK")
CPMM_READERS: dict[bytes, Reader] = {
    instruction("initialize"): creation(pool=3, first=4, second=5, wallet=0),
    instruction("initialize_with_permission"): creation(pool=4, first=5, second=6, wallet=1),
    instruction("swap_base_input"): swap(pool=3, wallet=0, wallet_tokens=(4, 5)),
    instruction("swap_base_output"): swap(pool=3, wallet=0, wallet_tokens=(4, 5)),
}
CLMM_READERS: dict[bytes, Reader] = {
    instruction("create_pool"): creation(pool=2, first=3, second=4, wallet=0),
    instruction("swap"): swap(pool=2, wallet=0, wallet_tokens=(3, 4)),
    instruction("swap_v2"): swap(pool=2, wallet=0, wallet_tokens=(3, 4)),
}
