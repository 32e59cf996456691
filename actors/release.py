"""The release of this code, and which of two releases is the older one.

Implements: launch/README.md, "Upgrades". Pure. pyproject.toml has the same number, and a test compares them.
"""

RELEASE = "0.2.0"
# The first release, whose processes and databases do not tell their release.
FIRST_RELEASE = "0.1.0"


def parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, for comparison: "0.10.0" is newer than "0.9.1"."""
    return tuple(int(number) for number in release.split("."))


def newest(*releases: str) -> str:
    """Return the newest of these releases; at least one."""
    return max(releases, key=parts)


def is_older(one: str, other: str) -> bool:
    return parts(one) < parts(other)
