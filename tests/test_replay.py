"""The published training runs, exactly: `replay` against data from the chapter's program."""

import plain_training
import pytest

from jaxagent.cli.replay import Replay, replayed

LISTS = {
    "outcome": "outcome",
    "guarded": "guarded",
    "group_size_sweep_seed_7_guarded": None,
    "six_epochs_seed_7": None,
}
OPTION = {"epochs": "passes"}


def entries(golden):
    """Every published run, with its settings as options."""
    for name, scorer in LISTS.items():
        for entry in golden("training")[name]:
            options = {OPTION.get(key, key): value for key, value in entry["settings"].items()}
            yield (
                entry,
                Replay(seed=entry["mt19937_seed"], scorer=scorer or entry["scorer"], **options),
            )


@pytest.fixture(scope="module")
def published(golden):
    return [(entry, options, replayed(options)) for entry, options in entries(golden)]


@pytest.fixture(scope="module")
def plain(golden):
    cloned = list(golden("imitation")["bc_epochs_40_lr_0.25_logits"].values())
    return [
        plain_training.train(cloned, options.seed, options.scorer, **entry["settings"])
        for entry, options in entries(golden)
    ]


def test_every_published_run_is_there(published):
    assert len(published) == 21


def test_histories_are_equal(published):
    for entry, options, ours in published:
        assert ours["success"] == entry["success"], options
        assert ours["violation"] == entry["violation"], options


def test_counts_are_equal_but_for_advantages_that_are_zero_up_to_rounding(published, plain):
    """The plain program reproduces every published count and names the rows that rounding decides.

    A tied group gives exactly 0 here; there it can be 1e-17, and then its rows
    count as clipped or not by the sign of a rounding error.
    """
    differing = 0
    for (entry, options, ours), oracle in zip(published, plain, strict=True):
        assert oracle["clipped"] == entry["clipped"], options
        gap = [a - b for a, b in zip(ours["clipped"], entry["clipped"], strict=True)]
        assert all(abs(g) <= u for g, u in zip(gap, oracle["undecided"], strict=True)), options
        totals = ours["totals"]
        assert totals["updates"] + sum(gap) == entry["totals"]["updates"], options
        for name in ("transitions", "vetoed_rollouts", "vetoed_updates"):
            assert totals[name] == entry["totals"][name], options
        differing += any(gap)
    assert differing <= 2  # seed 2 with either scorer: one row each


def test_final_policies_agree_to_1e_9(published):
    for entry, options, ours in published:
        assert ours["final_logits"].keys() == entry["final_logits"].keys()
        for name, row in entry["final_logits"].items():
            assert ours["final_logits"][name] == pytest.approx(row, abs=1e-9), (options, name)
        assert ours["known_high_probabilities"] == pytest.approx(
            entry["known_high_probabilities"], abs=1e-9
        )


def test_held_out_play_is_equal(published):
    for entry, options, ours in published:
        assert ours["eval"] == entry["eval"], options


def test_settings_in_force_are_reported_under_the_published_names(published, golden):
    for entry, _, ours in published:
        assert ours["settings"] == {**golden("training")["defaults"], **entry["settings"]}


def test_an_entry_has_the_keys_of_the_published_data(published):
    for entry, _, ours in published:
        assert ours.keys() == entry.keys() | {"scorer"}
