"""Who asks for a page of an account, and what an owner's refusal becomes there."""

from actors.accounts.api import OwnerReply
from actors.calls import Figures
from actors.errors import Err, Refusal
from actors.gateway.calls.requests import RefusedCaller
from actors.gateway.pages.callers import owners_answer, refused, with_figures
from tests.gateway.world import a_world, constant


async def test_a_page_of_an_account_wants_a_credential_and_no_payment() -> None:
    """Interface, "Authentication": no credentials are a 402, and a payment opens nothing."""
    async with a_world() as world:
        for headers in ({}, {"payment-signature": "e30="}):
            answer = await world.http.get("/account/info", headers=headers)
            assert (answer.status_code, constant(answer)) == (402, "PAYMENT_REQUIRED"), answer.text


def test_an_owners_refusal_carries_its_figures_where_there_are_some() -> None:
    """Interface, "Limits": headers on every answer of an account."""
    told = refused(OwnerReply(refusal="INVALID_REQUEST", detail="no", figures=Figures(7, 1, 1, 1)))
    assert isinstance(told, RefusedCaller) and (told.err, told.detail) == (Err.INVALID_REQUEST, "no")
    assert told.credits_remaining == 7
    assert with_figures(Refusal(Err.NOT_FOUND), None) == RefusedCaller(Err.NOT_FOUND)


async def test_an_owner_that_is_away_is_a_refusal() -> None:
    """Money rule 9."""
    async with a_world() as world:
        world.accounts.down = True
        gone = await owners_answer(world.accounts, None)  # type: ignore[arg-type]
        assert isinstance(gone, Refusal) and gone.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
