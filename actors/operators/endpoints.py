"""All pages of /operator/*.

Implements: decisions, "The operators' page". Each accepts only the operator's token, which the gateway verifies before
it reads a body.
"""

from actors.operators.accounts import AccountPages
from actors.operators.cluster import ClusterPages
from actors.operators.deposits import DepositPages
from actors.operators.nodes import NodePages
from actors.operators.ports import OperatorParts
from actors.operators.price_lists import PriceListPages
from actors.pages import Page


def operator_pages(parts: OperatorParts) -> list[Page]:
    groups = (AccountPages(parts), PriceListPages(parts), DepositPages(parts), NodePages(parts), ClusterPages(parts))
    return [page for group in groups for page in group.pages()]
