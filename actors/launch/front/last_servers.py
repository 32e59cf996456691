"""Keeps the replicas of before in HAProxy's configuration while Ray Serve names none.

Implements: design, "Measured facts" (HAProxy mode). Pure, and imports only the standard library (front/process.py).
While an application is deployed again with other arguments, Serve renders backends without a replica for five to seven
seconds, and relies on its Python proxy, which the front removes. The replicas of before still answer in that time, so
they stay. HAProxy checks each of them as always, so one that has ended is out of rotation within two checks.
"""

from collections.abc import Mapping

from actors.launch.front.config import by_section


def servers_of(text: str) -> dict[str, list[str]]:
    """Return the lines of the servers of each backend, by the first line of the backend; only backends with servers."""
    found: dict[str, list[str]] = {}
    for section, line in by_section(text):
        if section.startswith("backend ") and line.split()[:1] == ["server"]:
            found.setdefault(section, []).append(line)
    return found


def with_servers(text: str, before: Mapping[str, list[str]]) -> str:
    """Give each backend of the text that has no server the servers that it had before."""
    named = servers_of(text)
    lines: list[str] = []
    for section, line in by_section(text):
        lines.append(line)
        if line.strip() == section and section not in named:
            lines += before.get(section, ())
    return "\n".join(lines) + "\n"
