from actors.calls import Figures, HoldReply, Outcome
from actors.errors import Err, Refusal
from actors.gateway.admission import PLANS, AdmittedCall
from actors.gateway.call_replies import Replies, Reply, ended, release_of, whole
from tests.gateway.doubles import RESULT


def test_the_refusals_of_a_request_are_its_own_or_those_of_its_calls() -> None:
    """They are counted against the caller, so none may be missed."""
    refusal = Refusal(Err.INVALID_PARAMS)
    calls = [ended(b"1", refusal), ended(b"2", RESULT), Reply(b"3", None, refusal)]
    assert Replies(calls, None, None).errs() == [Err.INVALID_PARAMS] * 2
    assert Replies(calls, Refusal(Err.AUTH_FAILED), None).errs() == [Err.AUTH_FAILED]


def test_an_owners_refusal_carries_its_figures() -> None:
    """A suspended account reads why; where the owner told no figures there are none."""
    told = HoldReply(b"p", 1, "METHOD_NOT_ALLOWED", (), Figures(7, 1, 1, 1))
    done = whole(told)
    assert done.refusal is not None and "suspended" in done.refusal.detail and done.credits_remaining == 7
    assert whole(HoldReply(b"", 0, "AUTH_FAILED", (), None)).figures is None


def test_a_release_names_the_whole_hold() -> None:
    """A new owner accepts it without having granted the hold."""
    held = HoldReply(b"p", 4, None, (None,), Figures(7, 1, 1, 1))
    release = release_of(AdmittedCall(b"1", PLANS["getSlot"], b"[]"), b"op", held, 9)
    assert (release.pubkey, release.epoch, release.ceiling, release.charged) == (b"p", 4, 1, 0)
    assert (release.method, release.held_at, release.outcome) == ("getSlot", 9, int(Outcome.RELEASED))
