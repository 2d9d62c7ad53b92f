"""Many seeds: the same runs as one by one, nothing dropped, and the published means."""

import numpy as np
import optax
import pytest

from experiments import published_means
from jaxagent import choices, estimators, learn, noise, policies, runs, seeds
from jaxagent.gyms import refund
from jaxagent.report import summary

PROBLEM = refund.problem()
POLICY = policies.tabular(PROBLEM.gym.spec)


def outcomes(lr, lanes, num_seeds, scorer="guarded"):
    optimizer = optax.sgd(lr)
    update = runs.clipped_update(POLICY, optimizer)
    compare = estimators.anchor(PROBLEM.gym.spec)
    method = runs.Method(POLICY, choices.scorers_of(PROBLEM)[scorer], compare, update)
    learner = learn.start(POLICY.init(), optimizer)

    def one(run):
        return seeds.kept(runs.train(PROBLEM, method, learner, noise.rounds(3, run, 4), 4))

    program = seeds.compiled(one, lanes)
    return seeds.collected(program, seeds.blocks(num_seeds, lanes), num_seeds)


def test_a_run_does_not_depend_on_the_block_it_is_in():
    together, apart = outcomes(0.04, 5, 5), outcomes(0.04, 2, 5)
    for name, counts in together.history.items():
        if counts.dtype.kind == "i":
            np.testing.assert_array_equal(counts, apart.history[name], err_msg=name)
    np.testing.assert_allclose(together.params, apart.params, atol=1e-6)


def test_a_block_that_runs_over_is_cut_to_the_seeds_asked_for():
    assert [len(block) for block in seeds.blocks(5, 2)] == [2, 2, 2]
    assert len(outcomes(0.04, 2, 5).diverged) == 5


def test_a_diverged_run_is_counted_and_kept():
    results = outcomes(3e38, 3, 3)
    assert results.diverged.all()
    setting = {"rounds": 4, "group_size": 4, "passes": 2}
    said = summary.summarised(setting, PROBLEM, results)
    assert said["diverged"] == 3
    assert said["totals"]["transitions"].mean == results.history["transitions"].sum() / 3


@pytest.fixture(scope="module")
def published():
    """Both scorers with the chapter's own update, 256 seeds."""
    update = "sgd, one decision a step"
    return {
        scorer: published_means.compared(scorer, published_means.run(scorer, update, 256))
        for scorer in published_means.PUBLISHED
    }


def test_means_over_seeds_are_the_published_ones(published):
    """|z| < 4 for ten means of one fixed set of seeds: a chance of 6e-4 if they agree."""
    for scorer, (rows, _) in published.items():
        for row in rows:
            assert abs(row.z) < 4, (scorer, row)


def test_the_share_of_violating_seeds_is_the_published_one(published):
    for scorer, (_, held) in published.items():
        assert held.p > 1e-4, scorer
        assert held.succeeding == 256
    assert published["guarded"][1].violating == 0
    assert published["outcome"][1].violating > 0
