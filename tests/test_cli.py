"""The command line's contract: what it writes, and how it refuses."""

import json
import subprocess
import sys

import numpy as np
import pytest

from jaxagent.cli import main


def call(capsys, *argv):
    """Exit status, standard output, standard error."""
    with pytest.raises(SystemExit) as stop:
        main(argv)
    said = capsys.readouterr()
    return stop.value.code or 0, said.out, said.err


BAD = {
    "unknown option": ("train --frobnicate 3", "--frobnicate"),
    "unknown command": ("trian", "trian"),
    "no command": ("", "train"),
    "unknown scorer": ("train --scorer nice", "nice"),
    "unknown gym": ("train --gym chess", "chess"),
    "not a number": ("train --lr fast", "fast"),
    "learning rate nan": ("train --lr nan", "nan"),
    "learning rate inf": ("train --lr inf", "inf"),
    "learning rate zero": ("train --lr 0", "0"),
    "negative clip": ("train --clip -0.1", "-0.1"),
    "clip nan": ("replay --clip nan", "nan"),
    "no group": ("train --group-size 0", "0"),
    "no seeds": ("train --num-seeds 0", "0"),
    "no rounds": ("replay --rounds 0", "0"),
    "no passes": ("train --passes 0", "0"),
    "batch of none": ("train --batch-size 0", "0"),
    "batch of a half": ("train --batch-size 0.5", "0.5"),
    "too many rollouts to address": ("train --group-size 65537", "65537"),
    "negative seed": ("train --seed -1", "-1"),
    "negative twister seed": ("replay --seed -1", "-1"),
    "alone for leave-one-out": ("train --estimator rloo --group-size 1", "1"),
    "no violations to fine": ("train --gym bandit --scorer guarded", "guarded"),
    "no violations to price": ("train --gym search --scorer penalised", "penalised"),
    "no payoff of its own": ("train --gym refund --scorer payoff", "payoff"),
    "nothing to clone": ("train --gym bandit --from cloned", "cloned"),
    "folder of a kernel": ("train --out /proc/nope", "/proc/nope"),
    "file of a kernel": ("replay --json /proc/nope/run.json", "/proc/nope/run.json"),
}


@pytest.mark.parametrize(("line", "given"), BAD.values(), ids=BAD)
def test_bad_input_is_one_last_line_and_status_2(capsys, line, given):
    code, out, err = call(capsys, *line.split())
    last = err.splitlines()[-1]
    assert code == 2
    assert last.startswith("jaxagent: error: ") and given in last
    assert "Traceback" not in err and out == ""


def test_a_folder_with_files_in_it_is_refused_and_left_alone(capsys, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    code, _, err = call(capsys, "train", "--num-seeds", "2", "--out", str(tmp_path))
    assert code == 2 and str(tmp_path) in err.splitlines()[-1]
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("line", ["train --out {}/run", "replay --json {}/run.json"])
def test_a_file_in_the_path_is_refused_before_any_work(capsys, tmp_path, line):
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, *line.format(tmp_path / "file").split())
    assert code == 2 and out == "" and "is not a folder" in err.splitlines()[-1]


def test_bad_input_leaves_no_folder_behind(capsys, tmp_path):
    call(capsys, "train", "--lr", "-1", "--out", str(tmp_path / "a" / "b"))
    call(capsys, "train", "--estimator", "rloo", "--group-size", "1", "--out", str(tmp_path / "c"))
    assert list(tmp_path.iterdir()) == []


def test_help_and_version_are_no_errors(capsys):
    assert call(capsys, "--help")[0] == 0
    assert call(capsys, "train", "--help")[0] == 0
    code, out, _ = call(capsys, "--version")
    assert code == 0 and out.startswith("jaxagent ")


def test_train_writes_its_three_files_whole(capsys, tmp_path):
    out = tmp_path / "deep" / "run"
    line = f"train --num-seeds 5 --rounds 3 --group-size 4 --passes 3 --batch-size 7 --out {out}"
    code, said, _ = call(capsys, *line.split())
    assert code == 0 and "succeeds on all" in said
    assert sorted(file.name for file in out.iterdir()) == [
        "history.npz",
        "history.png",
        "summary.json",
    ]
    summary = json.loads((out / "summary.json").read_text())
    with np.load(out / "history.npz", allow_pickle=False) as history:
        assert history["success"].shape == (5, 3, 4)
        assert history["violation"].shape == (5, 3, 4, 2)
        assert history["zeroed"].shape == (5, 3, 3)
        assert history["final_logits"].shape == (5, 7, 4)
        transitions = history["transitions"].sum(axis=1)
    assert summary["totals"]["transitions"]["mean"] == transitions.mean()
    assert summary["settings"]["scorer"] == "guarded" and summary["settings"]["from"] == "cloned"
    assert (out / "history.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_command_writes_the_same_bytes(capsys, tmp_path):
    for name in ("a", "b"):
        call(capsys, *f"train --num-seeds 3 --rounds 2 --out {tmp_path / name}".split())
    for file in ("summary.json", "history.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("gym", ["bandit", "search"])
def test_each_gym_trains_with_its_own_defaults(capsys, tmp_path, gym):
    line = f"train --gym {gym} --num-seeds 2 --rounds 2 --batch-size all --out {tmp_path / gym}"
    assert call(capsys, *line.split())[0] == 0
    settings = json.loads((tmp_path / gym / "summary.json").read_text())["settings"]
    assert settings["scorer"] == "payoff"
    assert settings["from"] == {"bandit": "uniform", "search": "cloned"}[gym]


def test_replay_writes_json_without_infinities(capsys, tmp_path):
    file = tmp_path / "run.json"
    code, said, _ = call(capsys, *f"replay --rounds 1 --clip inf --json {file}".split())
    assert code == 0 and "eval-recover-high" in said
    entry = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert entry["settings"]["clip"] == "inf" and entry["settings"]["rounds"] == 1


def test_the_module_runs_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "jaxagent", "train", "--num-seeds", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("jaxagent: error: --num-seeds")
