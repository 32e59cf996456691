from pathlib import Path

from devnode.rpc import cluster_constants


def test_every_invented_constant_is_in_the_readme() -> None:
    """Users can read in the README which facts about the cluster are invented."""
    import devnode

    readme = (Path(devnode.__file__).parent / "README.md").read_text()
    names = [name for name in vars(cluster_constants) if name.isupper()]
    assert names and [name for name in names if name not in readme] == []
