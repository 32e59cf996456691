"""Operations of a replica: each once, and those that outlive it under a prefix that no replica has."""

from actors.calls import is_lasting, operation_at
from actors.gateway.calls.operation_names import OperationNames


def test_no_operation_is_named_twice() -> None:
    """Money rule 1: each charge has an operation of its own."""
    names = OperationNames(b"replica0")
    first, second = names.take(3), names.take(1)
    lasting = names.take(1, lasting=True)
    every = [operation_at(first, at) for at in range(3)] + [second, lasting]
    assert len(set(every)) == 5 and [is_lasting(one) for one in every] == [False] * 4 + [True]
    assert all(one.startswith(b"replica0") for one in every[:4])


def test_a_replica_that_was_given_up_names_its_operations_anew() -> None:
    """Money rule 2: its owner refunds what was named before."""
    names = OperationNames(b"replica0")
    before = names.take(1)
    names.start_over(b"replica1")
    after = names.take(1)
    assert before.startswith(b"replica0") and after.startswith(b"replica1") and before[8:] != after[8:]
