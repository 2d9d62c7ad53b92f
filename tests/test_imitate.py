"""Imitation against the published numbers, in float64, and the controls that they need."""

import random
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagent import imitate, policies, runs
from jaxagent.gyms import number_search, refund
from jaxagent.precision import exact
from jaxagent.rollout import collect_in_order, evaluate, silence
from jaxagent.types import Decision, Trajectory

HORIZON = refund.HORIZON
GYM = refund.gym()
POLICY = policies.tabular(GYM.spec)
TAUGHT, HELD_OUT = refund.TAUGHT.task, refund.HELD_OUT.task
RECOVER_TASKS = jax.tree.map(lambda leaf: leaf[2:], refund.TRAIN.task)


def shown() -> Trajectory:
    return imitate.demonstrations(GYM, refund.expert, TAUGHT, HORIZON)


def demonstrated() -> Decision:
    return imitate.examples(shown())


def corrected(params, expert=refund.expert):
    """One round of DAgger on the tasks that start in recover: labels, and the refitted policy."""
    labels = imitate.dagger(GYM, POLICY, params, expert, RECOVER_TASKS, HORIZON)
    return labels, imitate.clone(POLICY, params, imitate.together(demonstrated(), labels))


def by_the_learner_itself(params):
    """An "expert" that knows no more than the policy with these logits."""
    return lambda task, obs: jnp.argmax(params[obs]).astype(jnp.int32)


def held_out(params) -> Trajectory:
    return evaluate(GYM, POLICY, params, HELD_OUT, silence(GYM, HELD_OUT, HORIZON))


@pytest.fixture(scope="module")
def published():
    """The whole of the chapter's section 23.5, run once in float64."""

    @exact
    @jax.jit
    def run():
        params = runs.cloned(refund.problem(), POLICY)
        labels, mended = corrected(params)
        _, unmended = corrected(params, by_the_learner_itself(params))
        seen = [held_out(each) for each in (params, mended, unmended)]
        return demonstrated(), params, labels, mended, seen

    return run()


def named(rows: Decision) -> list[list[str]]:
    return [[refund.PHASES[obs], refund.ACTIONS[action]] for obs, action in imitate.pairs(rows)]


def check_logits(params: np.ndarray, told: dict[str, list[float]]) -> None:
    """AssertionError unless the visible rows are the published ones to 1e-9."""
    assert list(told) == ["start", "known_low", "known_high", "approved", "refunded", "recover"]
    rows = [refund.PHASES.index(phase) for phase in told]
    np.testing.assert_allclose(params[rows], list(told.values()), rtol=0, atol=1e-9)


def told_evaluation(seen: Trajectory) -> list[dict]:
    """A held-out evaluation in the words of the published one."""
    last = seen.verdict.success[:, -1], seen.verdict.violations[:, -1, 0]
    rows = zip(refund.HELD_OUT.names, seen.action, seen.live, *last, strict=True)
    return [
        {
            "task": task,
            "actions": [refund.ACTIONS[code] for code in action[live]],
            "success": bool(success),
            "violation": bool(violation),
        }
        for task, action, live, success, violation in rows
    ]


def test_the_tasks_are_the_published_ones(golden):
    told = golden("imitation")
    sets = {"expert": refund.TAUGHT, "train": refund.TRAIN, "eval": refund.HELD_OUT}
    for name, tasks in sets.items():
        rows = zip(tasks.names, *tasks.task, strict=True)
        ours = [[task, int(amount), refund.PHASES[start]] for task, amount, start in rows]
        assert ours == told[f"{name}_tasks"]


def test_the_expert_demonstrates_the_published_pairs(golden, published):
    rows, *_ = published
    assert named(rows) == golden("imitation")["expert_examples"]


def test_cloning_gives_the_published_policy(golden, published):
    _, params, *_ = published
    check_logits(params, golden("imitation")["bc_epochs_40_lr_0.25_logits"])
    check_logits(
        np.exp(params) / np.exp(params).sum(axis=1, keepdims=True),
        golden("imitation")["bc_probabilities"],
    )


def test_the_cloned_policy_solves_what_was_demonstrated_and_gives_up_elsewhere(golden, published):
    *_, (cloned, _, _) = published
    assert told_evaluation(cloned) == golden("imitation")["bc_eval"]
    assert cloned.verdict.success[:, -1].sum() == 2


def test_one_round_of_dagger_gives_the_published_labels_and_policy(golden, published):
    _, _, labels, mended, (_, seen, _) = published
    assert named(labels) == golden("imitation")["dagger_labels"]
    check_logits(mended, golden("imitation")["dagger_logits"])
    assert told_evaluation(seen) == golden("imitation")["dagger_eval"]
    assert seen.verdict.success[:, -1].sum() == 4


def test_labels_by_the_learner_itself_correct_nothing(published):
    *_, (cloned, _, unmended) = published
    assert told_evaluation(unmended) == told_evaluation(cloned)


def test_forty_more_demonstrations_leave_the_recover_row_uniform():
    more = refund.tasks(**{f"more_{n}": (5 + 2 * n, refund.START) for n in range(40)})
    assert set(more.task.amount > refund.LIMIT) == {True, False}

    @exact
    @jax.jit
    def fit():
        everything = jax.tree.map(lambda *leaves: np.concatenate(leaves), TAUGHT, more.task)
        taught = refund.TAUGHT._replace(task=everything)
        return runs.cloned(refund.problem()._replace(taught=taught), POLICY)

    params = fit()
    assert not params[refund.RECOVER].any()
    assert (np.abs(params[: refund.RECOVER]).max(axis=1) > 3).all()


def test_the_untrained_policy_with_seed_3_finishes_at_once(golden):
    generator = random.Random(3)
    uniforms = np.array([generator.random() for _ in range(HORIZON)])
    one = jax.tree.map(lambda leaf: leaf[:1], refund.TRAIN.task)
    collect = collect_in_order(GYM, POLICY, one, group_size=1, horizon=HORIZON)
    seen = exact(jax.jit(collect))(uniforms, np.zeros((len(refund.PHASES), 4)))
    ours = {
        "actions": [refund.ACTIONS[code] for code in seen.action[seen.live]],
        "success": bool(seen.verdict.success[0, 0, -1]),
    }
    assert ours == golden("imitation")["untrained_rollout_mt19937_seed_3"]


# Laws


def test_a_demonstration_is_the_expert_at_every_live_observation():
    problem = number_search.problem(6, 3)
    batch = jax.jit(partial(imitate.demonstrations, problem.gym, problem.expert, horizon=3))(
        problem.train.task
    )
    low, high = number_search.bounds(6)[batch.obs[:, :-1]].transpose(2, 0, 1)
    told = np.where(batch.live, (low + high - 1) // 2, batch.action)
    np.testing.assert_array_equal(batch.action, told)


@pytest.mark.x64
def test_only_the_kept_trajectories_are_imitated():
    batch = jax.jit(shown)()
    kept = imitate.examples(batch, keep=jnp.array([False, True]))
    assert len(imitate.pairs(kept)) == 4
    assert imitate.pairs(kept) == imitate.pairs(imitate.examples(batch))[3:]
    assert (kept.advantage == 1).all()


def test_relabelling_keeps_the_drivers_observations_and_takes_the_experts_actions():
    lookups = lambda noise, obs: (jnp.int32(refund.LOOKUP), jnp.full((), -5.0))
    relabel = partial(imitate.relabel, GYM, lookups, refund.expert, horizon=HORIZON)
    seen = jax.jit(relabel)(TAUGHT)
    phases = [[refund.PHASES[obs] for obs in row] for row in seen.obs.tolist()]
    assert phases[0] == ["start", *["known_low", "recover"] * 3, "known_low"]
    assert phases[1] == ["start", *["known_high", "recover"] * 3, "known_high"]
    np.testing.assert_array_equal(seen.action, refund.EXPERT[seen.obs[:, :-1]])
    assert not seen.log_prob.any()


def test_rows_put_together_are_fitted_one_after_the_other():
    rows = jax.jit(demonstrated)()
    few = jax.tree.map(lambda field: field[:3], rows)
    assert imitate.pairs(imitate.together(few, rows)) == imitate.pairs(few) + imitate.pairs(rows)
