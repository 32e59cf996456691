"""What the service answers itself, put beside the nodes that answer the rest.

Implements: design, section 3 (siblings never meet; here they are handed to each other). Wiring.
"""

from actors.config import Config
from actors.fees.endpoints import FeeMethods
from actors.gateway.own_methods import OwnMethods
from actors.lookups.bulk import BulkLookups
from actors.lookups.endpoints import LookupMethods
from actors.lookups.fan_out import Asker
from actors.upstream.replies import Node


def with_own_methods(node: Node, config: Config) -> Node:
    """The node, and beside it every method and bulk look-up that is composed of what it says."""
    asker = Asker(node, config.lookups.node_calls_max)
    handlers = FeeMethods(node).handlers() | LookupMethods(asker).handlers() | BulkLookups(asker).handlers()
    return OwnMethods(node, handlers)
