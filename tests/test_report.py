"""Intervals, tables and files."""

import json
import os

import numpy as np
import pytest
from scipy import stats

from jaxagent.report import files, intervals, tables


def test_an_exact_interval_covers_as_often_as_it_says():
    """Clopper-Pearson by its definition: each tail of the binomial holds 2.5% at the ends."""
    rate = intervals.rate(np.array([True] * 3 + [False] * 17))
    assert (rate.hits, rate.of) == (3, 20)
    assert stats.binom.sf(2, 20, rate.low) == pytest.approx(0.025, abs=1e-9)
    assert stats.binom.cdf(3, 20, rate.high) == pytest.approx(0.025, abs=1e-9)


def test_an_interval_of_none_and_of_all_stays_within_0_and_1():
    none, every = intervals.rate(np.zeros(9, bool)), intervals.rate(np.ones(9, bool))
    assert none.low == 0 and none.high == pytest.approx(1 - 0.025 ** (1 / 9))
    assert every.high == 1 and every.low == pytest.approx(0.025 ** (1 / 9))


def test_a_mean_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        value = intervals.mean(generator.normal(3.0, 2.0, 6))
        inside += value.low <= 3.0 <= value.high
    assert stats.binomtest(inside, 2000, 0.95).pvalue > 1e-4


def test_one_seed_claims_no_interval():
    assert intervals.mean(np.array([2.5])) == (2.5, None, None, None)
    assert tables.estimate(intervals.mean(np.array([2.5])))[1:] == ("-", "-")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a.json"
    files.write_json(file, {"old": 1})

    def fail(stream):
        stream.write(b"half")
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        files.write(file, fail)
    assert json.loads(file.read_text()) == {"old": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_json_holds_records_arrays_and_no_infinities(tmp_path):
    file = tmp_path / "a.json"
    rate = intervals.Rate(1, 2, 0.1, 0.9)
    files.write_json(file, {"rate": rate, "x": np.array([1.5, np.nan]), "n": np.int32(3)})
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == {
        "rate": {"hits": 1, "of": 2, "low": 0.1, "high": 0.9},
        "x": [1.5, "nan"],
        "n": 3,
    }


def test_checks_of_a_path_leave_nothing_behind(tmp_path):
    files.require_empty(tmp_path / "a" / "b")
    files.require_writable(tmp_path / "c" / "d.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="a regular file must be named"):
        files.require_writable(tmp_path)


def test_a_table_aligns_its_columns():
    text = tables.render("title", ("name", "count"), [("a", "1"), ("longer", "1,000")])
    lines = text.splitlines()
    assert lines[0] == "title" and len({len(line) for line in lines[2:]}) == 1


def test_a_link_is_written_through_and_only_regular_files_are_written(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    link.symlink_to(target)
    files.write_json(link, 1)
    assert link.is_symlink() and target.read_text() == "1\n"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="a regular file must be named"):
        files.require_writable(pipe)


def test_a_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path):
    secret, new = tmp_path / "secret", tmp_path / "new"
    secret.touch(mode=0o600)
    before = os.umask(0o027)
    try:
        files.write_json(secret, 1)
        files.write_json(new, 1)
    finally:
        os.umask(before)
    assert [file.stat().st_mode & 0o777 for file in (secret, new)] == [0o600, 0o640]


def two_files(folder):
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_comes_whole_whether_it_was_there_empty_or_not(tmp_path, there):
    folder = tmp_path / "out"
    if there:
        folder.mkdir()
    files.write_folder(folder, two_files)
    assert sorted(file.name for file in folder.iterdir()) == ["a", "b"]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_fails_half_way_is_not_there(tmp_path):
    def fail(folder):
        two_files(folder)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        files.write_folder(tmp_path / "out", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_filled_meanwhile_is_left_alone(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a").write_text("theirs")
    with pytest.raises(ValueError, match="filled meanwhile"):
        files.write_folder(folder, two_files)
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"a": "theirs"}


def test_no_cell_of_a_wide_table_is_cut():
    actions = " > ".join(["request_approval"] * 7)
    row = {"task": "eval-recover-high", "success": False, "violation": False}
    text = tables.held_out([{**row, "actions": actions.split(" > ")}])
    assert actions in text and "eval-recover-high" in text and "no" in text


def test_an_interval_is_cut_to_what_the_number_can_be():
    rate = intervals.mean(np.array([0.0, 0.0, 0.4]), bounds=(0.0, 1.0))
    assert rate.low == 0 and rate.high < 1
