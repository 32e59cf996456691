"""Meteora's pools: DAMM v1, DAMM v2 and DLMM.

Implements: interface, "Signal kinds" (newPair, largeSwap), for programs Eo7W...UaB, cpam...1sGG and LBUZ...wxo.
Pure.
"""

from actors.signals.observations import Reader, instruction
from actors.signals.pools import creation, swap
from actors.signals.transaction import known_key

DAMM_V1 = known_key("Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB")
DAMM_V2 = known_key("cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG")
DLMM = known_key("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo")
_V1_PLAIN = (
    *("permissionless_pool", "permissionless_pool_with_fee_tier", "permissioned_pool"),
    "customizable_permissionless_constant_product_pool",
)
_V1_CONFIGURED = ("config", "config2")
_DLMM_PAIRS = (
    *("lb_pair", "lb_pair2"),
    *("customizable_permissionless_lb_pair", "customizable_permissionless_lb_pair2"),
)
_DLMM_SWAPS = (
    *("swap", "swap2", "swap_exact_out", "swap_exact_out2"),
    *("swap_with_price_impact", "swap_with_price_impact2"),
)
DAMM_V1_READERS: dict[bytes, Reader] = {
    **{instruction(f"initialize_{name}"): creation(pool=0, first=2, second=3) for name in _V1_PLAIN},
    **{
        instruction(f"initialize_permissionless_constant_product_pool_with_{name}"): creation(0, 3, 4)
        for name in _V1_CONFIGURED
    },
    instruction("swap"): swap(pool=0, wallet=12, wallet_tokens=(1, 2)),
}
DAMM_V2_READERS: dict[bytes, Reader] = {
    instruction("initialize_pool"): creation(pool=6, first=8, second=9, wallet=0),
    instruction("initialize_customizable_pool"): creation(pool=5, first=7, second=8, wallet=0),
    instruction("initialize_pool_with_dynamic_config"): creation(pool=7, first=9, second=10, wallet=0),
    **{instruction(name): swap(pool=1, wallet=8, wallet_tokens=(2, 3)) for name in ("swap", "swap2")},
}
DLMM_READERS: dict[bytes, Reader] = {
    **{instruction(f"initialize_{name}"): creation(pool=0, first=2, second=3) for name in _DLMM_PAIRS},
    instruction("initialize_permission_lb_pair"): creation(pool=1, first=3, second=4),
    **{instruction(name): swap(pool=0, wallet=10, wallet_tokens=(4, 5)) for name in _DLMM_SWAPS},
}
