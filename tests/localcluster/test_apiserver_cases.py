"""The API server answers as a real one did."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.localcluster.apiserver_cases import Replay, load
from tests.small_cluster import SmallCluster, small_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path_factory.mktemp("cases")) as running:
        yield running


@pytest.fixture(scope="module")
def trust(cluster: SmallCluster) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=cluster.ca_pem)


@pytest.mark.parametrize("case", load(), ids=lambda case: case["id"])
def test_recorded_answer(cluster: SmallCluster, trust: ssl.SSLContext, case: dict[str, Any]) -> None:
    Replay(cluster.server, cluster.token, trust, case).run()
