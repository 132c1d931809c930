"""Rank, world and master from what Volcano's plugins put into the environment."""

import pytest

from deploy.workloads.charlm.world import World, WorldError, resolve


def test_rank_and_master_by_the_pytorch_plugin():
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "j-x-master-0.j-x", "MASTER_PORT": "23456"}
    assert World.from_environment(environ) == World("j-x", 1, 2, "j-x-master-0.j-x", 23456)


def test_rank_and_master_by_the_svc_and_env_plugins():
    environ = {"VC_MASTER_HOSTS": "a-master-0.a", "VC_HELPER_HOSTS": "a-helper-0.a,a-helper-1.a", "VC_TASK_INDEX": "1"}
    assert World.from_environment(environ, "a-helper-1") == World("a", 2, 3, "a-master-0.a")
    with pytest.raises(WorldError, match="none of VC_"):
        World.from_environment(environ, "elsewhere")
    one_task = {"VC_WORKER_HOSTS": "a-worker-0.a,a-worker-1.a", "VC_TASK_INDEX": "1", "MAAS_JOB_NAME": "harbour"}
    assert World.from_environment(one_task, "elsewhere") == World("harbour", 1, 2, "a-worker-0.a")


def test_alone_without_any():
    assert World.from_environment({}) == World("charlm")


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "m"}, "RANK 2 is not within WORLD_SIZE 2"),
        ({"RANK": "-1", "WORLD_SIZE": "2", "MASTER_ADDR": "m"}, "RANK is '-1', not a number"),
        ({"RANK": "0"}, "WORLD_SIZE is not set"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
    ],
)
def test_an_environment_that_contradicts_itself_is_refused(environ, complaint):
    with pytest.raises(WorldError, match=complaint):
        World.from_environment(environ)


def test_the_hosts_file_goes_before_the_system(tmp_path, monkeypatch):
    hosts = tmp_path / "hosts"
    hosts.write_text("# pods\n::1 j-master-0.j\n127.3.0.7\tj-master-0.j j-master-0 # rank 0\n")
    monkeypatch.setenv("MAAS_HOSTS_FILE", str(hosts))
    assert resolve("j-master-0.j") == resolve("j-master-0") == "127.3.0.7"
    assert resolve("localhost") == "127.0.0.1"
    with pytest.raises(OSError):
        resolve("j-master-1.j")
