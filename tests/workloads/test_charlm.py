"""charlm as the cluster runs it: one process a rank, environment in, log lines, files and an exit code out."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from deploy.workloads.charlm.checkpoint import Checkpoints, State
from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.model import Model
from deploy.workloads.charlm.ring import Alone
from deploy.workloads.charlm.text import Corpus, batch
from tests.workloads.ranks import parameters

# --- what is learned


def test_the_gradient_is_the_slope_of_the_loss():
    corpus = Corpus.make()
    model = Model(len(corpus.vocabulary))
    flat, gradient = model.initial(3), np.empty(model.size)
    samples = batch(corpus.training, model.context, np.arange(6) * 50)
    model.gradient(flat, *samples, out=gradient)
    for index in np.random.default_rng(0).integers(0, model.size, 40):
        step = np.zeros(model.size)
        step[index] = 1e-5
        slope = (model.loss(flat + step, *samples) - model.loss(flat - step, *samples)) / 2e-5
        assert gradient[index] == pytest.approx(slope, abs=1e-6)


def test_two_ranks_compute_what_one_does_and_learn_more_than_letter_frequencies(start, tmp_path):
    options = ["--steps", "200", "--global-batch", "63"]  # 63: the ranks' shares are not equal
    one = start("one", 1, *options, "--checkpoint-dir", str(tmp_path / "ck1"))
    two = start("two", 2, *options, "--checkpoint-dir", str(tmp_path / "ck2"))
    assert one.wait() == [0]
    assert two.wait() == [0, 0]
    losses = one.losses(), two.losses()
    assert list(losses[0]) == list(losses[1]) == list(range(1, 201))
    for step, loss in losses[0].items():
        assert float(loss) == pytest.approx(float(losses[1][step]), abs=1e-6)
    folders = tmp_path / "ck1/step-00000200", tmp_path / "ck2/step-00000200"
    assert np.abs(parameters(folders[0]) - parameters(folders[1])).max() < 1e-6
    held_out, frequencies = map(float, re.search(r"Done: (\S+) nats .* (\S+) by", two.text()).groups())
    assert frequencies == pytest.approx(3.004, abs=0.001)
    assert held_out < 0.6 * frequencies
    assert "Joined: rank 1 of 2" in two.text(1)
    assert two.losses(1)[200] == two.losses(0)[200]


@pytest.mark.parametrize("how", [["--diverge", "10"], ["--lr", "10"]])
def test_a_learning_rate_that_is_too_high_diverges_and_leaves_no_bad_checkpoint(start, tmp_path, how):
    ranks = start("d", 2, "--steps", "300", "--checkpoint-every", "1", "--checkpoint-dir", str(tmp_path / "ck"), *how)
    assert ranks.wait() == [3, 3]
    for rank in (0, 1):
        assert re.search(r"\[Loss: (nan|inf), LR: .*\n.*\[ERROR\] .*\[Loss is (nan|inf)", ranks.text(rank))
    manifests = list((tmp_path / "ck").glob("*/manifest.json"))
    assert 1 <= len(manifests) <= 3
    assert all(np.isfinite(parameters(manifest.parent)).all() for manifest in manifests)


def test_numbers_that_are_not_finite_are_not_saved(tmp_path):
    state = State(5, np.array([[0.0, 1.0], [0.0, np.inf]]))
    Checkpoints(tmp_path, {}, Alone(), Log("harbour", 0)).save(state, {})
    assert not list(tmp_path.iterdir())


# --- what is lost, and what is not


def test_killed_and_started_again_it_goes_on_as_if_nothing_had_been(start, tmp_path):
    options = ["--steps", "90", "--checkpoint-every", "20", "--checkpoint-dir"]
    whole = start("whole", 2, *options, str(tmp_path / "whole/ck"))
    assert whole.wait() == [0, 0]
    options = [*options, str(tmp_path / "ck")]
    first = start("first", 2, *options, "--step-seconds", "0.02")
    first.reach(47)
    first.processes[1].kill()
    assert first.wait(5) == [1, -signal.SIGKILL]
    assert "[ERROR]" in first.text()
    second = start("second", 2, *options)
    assert second.wait() == [0, 0]
    resumed = int(re.search(r"\[Resumed from checkpoint: step (\d+)\]", second.text())[1])
    assert resumed >= max(map(int, re.findall(r"Checkpoint saved: step (\d+)", first.text()))) >= 40
    expected = whole.losses()
    assert second.losses() == {step: expected[step] for step in range(resumed + 1, 91)}
    for shard in ("shard-0-of-2.npy", "shard-1-of-2.npy"):  # to the last bit
        name = Path("ck/step-00000090") / shard
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "ck").iterdir()) == [
        "step-00000060",
        "step-00000080",
        "step-00000090",
    ]


def damage_a_shard(folder: Path) -> None:
    shard = folder / "shard-1-of-2.npy"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def cut_a_shard(folder: Path) -> None:
    os.truncate(folder / "shard-0-of-2.npy", 1000)


def lose_a_shard(folder: Path) -> None:
    (folder / "shard-0-of-2.npy").unlink()


def lose_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("harm", [damage_a_shard, cut_a_shard, lose_a_shard, lose_the_manifest])
def test_a_checkpoint_that_is_not_whole_is_passed_over(start, tmp_path, harm):
    options = ["--global-batch", "32", "--checkpoint-every", "10", "--checkpoint-dir", str(tmp_path / "ck")]
    assert start("first", 2, "--steps", "20", *options).wait() == [0, 0]
    harm(tmp_path / "ck/step-00000020")
    again = start("again", 3, "--steps", "25", *options)  # by three ranks what two have written
    assert again.wait() == [0, 0, 0]
    assert re.search(r"\[WARN\] .*\[Checkpoint skipped: step-00000020: ", again.text())
    assert list(again.losses()) == list(range(11, 26))
    assert np.isfinite(parameters(tmp_path / "ck/step-00000020")).all()


def test_a_directory_of_another_model_is_left_alone(start, tmp_path):
    options = ["--steps", "5", "--checkpoint-dir", str(tmp_path / "ck")]
    assert start("first", 1, *options).wait() == [0]
    path = tmp_path / "ck/step-00000005/manifest.json"
    path.write_text(path.read_text().replace('"hidden": 128', '"hidden": 64'))
    again = start("again", 1, *options)
    assert again.wait() == [1]
    assert "is of another model; choose another directory" in again.text()


def test_one_rank_asked_to_end_makes_all_save_the_same_step(start, tmp_path):
    ranks = start("r", 2, "--checkpoint-dir", str(tmp_path / "ck"), "--step-seconds", "0.01")
    ranks.reach(12)
    ranks.processes[1].send_signal(signal.SIGTERM)
    assert ranks.wait(5) == [143, 143]
    last = max(ranks.losses())
    assert last == max(ranks.losses(1)) >= 12
    assert re.search(rf"\[WARN\] .*emergency checkpoint\]\n.*\[Checkpoint saved: step {last},", ranks.text())
    again = start("again", 2, "--checkpoint-dir", str(tmp_path / "ck"), "--step-seconds", "0.01")
    again.reach(last + 1)
    assert f"[Resumed from checkpoint: step {last}]" in again.text()


def test_asked_to_end_while_waiting_for_others_it_ends_at_once(tmp_path, start):
    ranks = start("r", 2)
    ranks.processes[1].kill()
    ranks.reach(0)
    time.sleep(0.2)
    ranks.processes[0].send_signal(signal.SIGTERM)
    assert ranks.processes[0].wait(3) == 143
    assert "SIGTERM before the first step: nothing to save" in ranks.text()


def test_a_full_disk_costs_the_checkpoint_not_the_run(start, tmp_path):
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck/step-00000004").write_text("a file where a folder has to go")
    ranks = start("r", 2, "--steps", "6", "--checkpoint-every", "4", "--checkpoint-dir", str(tmp_path / "ck"))
    assert ranks.wait() == [0, 0]
    assert re.search(r"\[ERROR\] .*\[Checkpoint of step 4 not written: ", ranks.text(1))
    assert "Checkpoint saved: step 6" in ranks.text()
