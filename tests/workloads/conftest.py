import pytest

from tests.workloads.ranks import Ranks


@pytest.fixture
def start(tmp_path):
    started = []

    def _start(name: str, size: int, *options: str) -> Ranks:
        started.append(Ranks(tmp_path / name, size, *options))
        return started[-1]

    yield _start
    for ranks in started:
        ranks.end()
