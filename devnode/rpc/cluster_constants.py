"""Invented facts about the cluster around this node.

There is one node, without votes, stake or inflation. Clients still ask about these, so each answer is a plausible
constant. All of them are in this module, and the README names them.
"""

ACTIVATED_STAKE_LAMPORTS = 42_000_000_000_000  # 42,000 SOL: the whole stake of the cluster, and all of it this node's.
VOTE_COMMISSION_PERCENT = 0
STAKE_MINIMUM_DELEGATION_LAMPORTS = 1
INFLATION_GOVERNOR = {"foundation": 0.0, "foundationTerm": 0.0, "initial": 0.0, "taper": 1.0, "terminal": 0.0}
SHRED_VERSION = 51_361
SLOT_LEADERS_MAX = 5_000
REWARD_ADDRESSES_MAX = 32
