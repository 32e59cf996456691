"""Joins the methods that the service answers itself with the nodes that answer all others.

Implements: design, section 3 (contexts on one level do not import each other; they are joined here). Wiring.
"""

from actors.config import Config
from actors.fees.endpoints import FeeMethods
from actors.gateway.own_methods import OwnMethods
from actors.lookups.bulk import BulkLookups
from actors.lookups.endpoints import LookupMethods
from actors.lookups.fan_out import Asker
from actors.upstream.replies import Node


def with_own_methods(node: Node, config: Config) -> Node:
    """Return the node together with every method and bulk look-up that is composed of several answers of the node."""
    asker = Asker(node, config.lookups.node_calls_max)
    handlers = FeeMethods(node).handlers() | LookupMethods(asker).handlers() | BulkLookups(asker).handlers()
    return OwnMethods(node, handlers)
