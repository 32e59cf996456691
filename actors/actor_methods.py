"""Which methods a running actor has: one of another release may lack some of those that this release calls.

Implements: launch/README.md, "Upgrades" (the way back to the release before). Ray reads an actor's methods from the
class that the caller has, and ends the process of an actor that is called by a method which it lacks. So what not every
release has is asked for before the call. Between that and the call the actor may start again with other code; the call
then ends its process once. Tests use the plain classes directly.
"""

from typing import Any

# Methods that actors have in all releases, which are called at once: among them those that calls of clients wait for.
OF_EVERY_RELEASE = frozenset(
    {
        *("address", "ask", "ask_engine", "ask_many", "confirm", "fingerprint", "has_sent", "health"),
        *("process_id", "race", "report", "status"),
    }
)


async def has_method(handle: Any, method: str) -> bool:
    """Return whether the actor can be called by this method. handle: of Ray's, or of an actor that shares a process.

    Raises what a call raises. An actor that shares its process raises an exception for a method that it lacks.
    """
    if not hasattr(handle, method):
        return False
    if method in OF_EVERY_RELEASE:
        return True
    asked = getattr(handle, "__ray_call__", None)  # Ray gives it to every actor: it calls a function with the actor.
    return asked is None or bool(await asked.remote(hasattr, method))
