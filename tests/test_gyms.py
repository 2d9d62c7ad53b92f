"""Laws for every gym, found by discovery; the refund desk and number search against other code."""

import importlib
import inspect
import pkgutil
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_refund
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import jaxagent.gyms
from jaxagent import policies
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.rollout import rollout
from jaxagent.types import Gym, Noise, Task, Trajectory

NUM_PLAYS = 512
few = settings(max_examples=5, deadline=None, derandomize=True)
many = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)


class Subject(NamedTuple):
    """A gym that must obey the laws."""

    gym: Gym
    tasks: Task  # leaves [K]
    horizon: int

    @property
    def num_actions(self) -> int:
        return len(self.gym.spec.actions)


class Play(NamedTuple):
    """What happens in one episode: which task, what is done, how chance falls."""

    task: Task
    action: np.ndarray  # [*B T]
    chance: np.ndarray  # [*B T], uniforms


def discovered() -> dict[str, Subject]:
    """Every module of `jaxagent.gyms`, by its `problem()`; two turns more than its horizon."""
    names = [module.name for module in pkgutil.iter_modules(jaxagent.gyms.__path__)]
    modules = {name: importlib.import_module(f"jaxagent.gyms.{name}") for name in names}
    problems = {name: module.problem() for name, module in modules.items()}
    return {name: Subject(p.gym, p.train.task, p.horizon + 2) for name, p in problems.items()}


BELIEVED = number_search.Interval(*np.array([[0, 3, 0, 15], [16, 9, 1, 16]], np.int32))
SUBJECTS = discovered() | {"belief": Subject(number_search.belief(), BELIEVED, 6)}
each_gym = pytest.mark.parametrize("name", SUBJECTS)


def replayed(gym: Gym, play: Play) -> Trajectory:
    return rollout(gym, policies.replay, play.task, Noise(play.action, play.chance))


@cache
def one(name: str):
    """The jitted `replayed` of a subject."""
    return jax.jit(partial(replayed, SUBJECTS[name].gym))


@cache
def batch(name: str):
    """The jitted `replayed` of a subject, over plays [P]."""
    return jax.jit(jax.vmap(partial(replayed, SUBJECTS[name].gym)))


def random_plays(name: str, seed: int) -> tuple[Play, Trajectory]:
    """Plays [P], their tasks, actions and chance drawn alike, and what comes of them."""
    subject, numbers = SUBJECTS[name], np.random.default_rng(seed)
    which = numbers.integers(len(subject.tasks[0]), size=NUM_PLAYS)
    shape = (NUM_PLAYS, subject.horizon)
    play = Play(
        jax.tree.map(lambda leaf: leaf[which], subject.tasks),
        numbers.integers(subject.num_actions, size=shape, dtype=np.int32),
        numbers.random(shape, np.float32),
    )
    return play, jax.device_get(batch(name)(play))


@cache
def every_odds(name: str):
    """The jitted odds of every action in every state: `(tasks [P], states [P N]) -> [P N A C]`."""
    actions = np.arange(SUBJECTS[name].num_actions, dtype=np.int32)
    of_actions = jax.vmap(SUBJECTS[name].gym.odds, in_axes=(None, None, 0))
    of_states = jax.vmap(of_actions, in_axes=(None, 0, None))
    of_plays = jax.vmap(of_states, in_axes=(0, 0, None))
    return jax.jit(lambda tasks, states: of_plays(tasks, states, actions))


# Laws of every gym


@pytest.mark.parametrize("name", discovered())
def test_a_problem_is_whole(name):
    """As many names and weights as tasks, weights that sum to 1, advice and fines that fit."""
    problem = importlib.import_module(f"jaxagent.gyms.{name}").problem()
    for tasks in filter(None, (problem.train, problem.held_out, problem.taught)):
        sizes = {len(leaf) for leaf in jax.tree.leaves(tasks.task)}
        assert sizes == {len(tasks.names)} == {len(tasks.weight)}
        assert (np.asarray(tasks.weight) > 0).all() and np.sum(tasks.weight) == pytest.approx(1)
    spec = problem.gym.spec
    assert np.shape(problem.penalty) == (len(spec.violations),)
    assert (problem.expert is None) == (problem.taught is None)
    if problem.expert is not None:
        advise = jax.vmap(problem.expert, in_axes=(None, 0))
        task = jax.tree.map(lambda leaf: leaf[0], problem.taught.task)
        advice = advise(task, jnp.arange(len(spec.observations)))
        assert advice.min() >= 0 and advice.max() < len(spec.actions)


@pytest.mark.x64
@each_gym
def test_names_are_distinct_and_the_terminal_one_is_last(name):
    spec = SUBJECTS[name].gym.spec
    for names in (spec.observations, spec.actions, spec.violations):
        assert len(set(names)) == len(names)
    assert "terminal" not in spec.observations[:-1]


@pytest.mark.x64
@each_gym
@given(seed=seeds)
@few
def test_observations_are_named_and_no_decision_is_made_at_the_terminal_one(name, seed):
    _, seen = random_plays(name, seed)
    observations = SUBJECTS[name].gym.spec.observations
    assert seen.obs.min() >= 0 and seen.obs.max() < len(observations)
    decided_at = {observations[obs] for obs in np.unique(seen.obs[:, :-1][seen.live])}
    assert "terminal" not in decided_at


@pytest.mark.x64
@each_gym
def test_a_step_keeps_dtypes_and_structure_and_an_observation_is_an_int32(name):
    gym, tasks, _ = SUBJECTS[name]
    task = jax.tree.map(lambda leaf: leaf[0], tasks)
    before = jax.eval_shape(gym.reset, task)
    after = jax.eval_shape(gym.step, task, before, jnp.int32(0), jnp.int32(0))
    chex.assert_trees_all_equal_structs(before, after)
    chex.assert_trees_all_equal_shapes_and_dtypes(before, after)
    seen = jax.eval_shape(gym.observe, task, before)
    assert (seen.shape, seen.dtype) == ((), jnp.int32)


@pytest.mark.x64
@each_gym
def test_a_verdict_has_the_shapes_that_the_spec_names(name):
    gym, tasks, _ = SUBJECTS[name]
    task = jax.tree.map(lambda leaf: leaf[0], tasks)
    verdict = jax.eval_shape(lambda task: gym.judge(task, gym.reset(task)), task)
    shapes = {field: leaf.shape for field, leaf in verdict._asdict().items()}
    kinds = (len(gym.spec.violations),)
    assert shapes == {"done": (), "success": (), "violations": kinds, "valid": ()}
    assert {leaf.dtype for leaf in verdict} == {jnp.dtype(bool)}


def check_reset_is_fresh(gym: Gym, task: Task, played: Task, actions, chances) -> None:
    """AssertionError unless `task` resets alike before and after `played` was played (F36)."""
    fresh, state = gym.reset(task), gym.reset(played)
    for action, chance in zip(jnp.asarray(actions), jnp.asarray(chances), strict=True):
        state = gym.step(played, state, action, chance)
    chex.assert_trees_all_equal(gym.reset(task), fresh, strict=True)


@each_gym
@given(seed=seeds)
@settings(few, max_examples=3)
def test_reset_is_a_fresh_state_after_any_play_of_any_task(name, seed):
    gym = SUBJECTS[name].gym
    play, seen = random_plays(name, seed)
    for row in range(3):
        task, played = (jax.tree.map(lambda leaf, at=at: leaf[at], play.task) for at in (-row, row))
        check_reset_is_fresh(gym, task, played, seen.action[row], seen.chance[row])
        first = jax.tree.map(lambda leaf, at=row: leaf[at, 0], seen.state)
        chex.assert_trees_all_equal(first, gym.reset(played))


def test_the_reset_law_sees_a_flag_that_is_kept():
    desk, kept = refund.gym(), []

    def step(task, state, action, chance):
        kept.append(desk.step(task, state, action, chance))
        return kept[-1]

    def reset(task):
        fresh = desk.reset(task)
        return fresh._replace(refunded=kept[-1].refunded) if kept else fresh

    low = refund.Task(jnp.int32(20), jnp.int32(refund.KNOWN_LOW))
    arguments = (low, low, jnp.array([refund.REFUND]), jnp.array([0]))
    check_reset_is_fresh(desk, *arguments)
    with pytest.raises(AssertionError, match="refunded"):
        check_reset_is_fresh(desk._replace(step=step, reset=reset), *arguments)


@pytest.mark.x64
@each_gym
@given(seed=seeds)
@few
def test_done_is_absorbing_and_no_success_or_violation_reverts(name, seed):
    verdict = random_plays(name, seed)[1].verdict
    for fact in (verdict.done, verdict.success, verdict.violations):
        assert (np.diff(fact.astype(int), axis=1) >= 0).all()
    assert verdict.done[verdict.success].all()


@pytest.mark.x64
@each_gym
@given(seed=seeds)
@few
def test_odds_are_a_distribution_over_as_many_outcomes_everywhere(name, seed):
    play, seen = random_plays(name, seed)
    odds = np.asarray(every_odds(name)(play.task, seen.state))
    assert (odds >= 0).all()
    np.testing.assert_allclose(odds.sum(axis=-1), 1, atol=1e-6)
    assert ((seen.chance >= 0) & (seen.chance < odds.shape[-1])).all()


@each_gym
@given(seed=seeds)
@few
def test_plays_all_at_once_equal_plays_one_by_one(name, seed):
    play, together = random_plays(name, seed)
    for row in range(8):
        pick = lambda leaf, row=row: leaf[row]
        alone = one(name)(jax.tree.map(pick, play))
        chex.assert_trees_all_equal(jax.tree.map(pick, together), alone)


@each_gym
@given(seed=seeds)
@few
def test_a_judge_reads_task_and_state_alone(name, seed):
    gym = SUBJECTS[name].gym
    assert list(inspect.signature(gym.judge).parameters) == ["task", "state"]
    play, seen = random_plays(name, seed)
    of_states = jax.vmap(gym.judge, in_axes=(None, 0))
    chex.assert_trees_all_equal(jax.vmap(of_states)(play.task, seen.state), seen.verdict)


# The refund desk


def test_the_verdict_on_the_refund_desk_is_that_of_its_authoritative_state():
    every = list(product(range(7), (False, True), (False, True), range(4)))
    state = refund.State(*(np.array(column) for column in zip(*every, strict=True)))
    task = refund.Task(jnp.int32(80), jnp.int32(refund.START))
    verdict = jax.vmap(refund.judge, in_axes=(None, 0))(task, state)
    for row, (phase, refunded, violation, effects) in enumerate(every):
        done = refund.PHASES[phase] == "terminal"
        assert bool(verdict.done[row]) == done
        assert bool(verdict.success[row]) == (done and refunded)
        assert verdict.violations[row].tolist() == [violation, effects > 1]


@pytest.mark.x64
def test_every_transition_of_the_refund_desk_is_the_published_one(golden):
    rows = golden("refund_gym")["one_step_from_reset"]
    task = refund.Task(
        np.array([row["amount"] for row in rows], np.int32),
        np.array([refund.PHASES.index(row["state"]) for row in rows], np.int32),
    )
    action = np.array([refund.ACTIONS.index(row["action"]) for row in rows], np.int32)
    after = jax.vmap(lambda task, action: refund.step(task, refund.reset(task), action))(
        task, action
    )
    assert len(rows) == 48
    for row, *state in zip(rows, *after, strict=True):
        told = (refund.PHASES.index(row["next"]), row["refunded"], row["violation"], row["effects"])
        assert tuple(int(leaf) for leaf in state) == told, row
        assert row["done"] == (row["next"] == "terminal")


def test_every_transition_of_the_plain_desk_is_the_published_one(golden):
    for row in golden("refund_gym")["one_step_from_reset"]:
        after = plain_refund.act(plain_refund.Desk(row["amount"], row["state"]), row["action"])
        told = tuple(row[key] for key in ("next", "done", "refunded", "violation", "effects"))
        assert (after.phase, after.done, after.refunded, after.violation, after.effects) == told


def test_every_random_episode_of_the_refund_desk_is_the_published_one(golden):
    episodes = golden("refund_gym")["random_episodes"]
    codes = [[refund.ACTIONS.index(action) for action, _ in each["steps"]] for each in episodes]
    padded = np.array([(row + [refund.LOOKUP] * 10)[:10] for row in codes], np.int32)
    task = refund.Task(
        np.array([each["amount"] for each in episodes], np.int32),
        np.array([refund.PHASES.index(each["start_state"]) for each in episodes], np.int32),
    )
    told = Play(task, padded, np.zeros(padded.shape))
    seen = jax.device_get(jax.vmap(partial(replayed, refund.gym()))(told))
    assert len(episodes) == 1500
    for row, each in enumerate(episodes):
        length = len(each["steps"])
        phases = [refund.PHASES[obs] for obs in seen.obs[row, : length + 1]]
        assert phases == [each["start_state"]] + [after for _, after in each["steps"]]
        assert seen.live[row, :length].all()
        assert seen.verdict.done[row, length] == each["done"]
        for fact in ("refunded", "violation", "effects"):
            assert getattr(seen.state, fact)[row, length] == each[fact], (row, fact)


@pytest.mark.parametrize("number", range(4), ids=refund.TRAIN.names)
def test_every_sequence_of_seven_actions_ends_as_in_the_plain_desk(number, outcome_of_all):
    amount, start = (int(leaf[number]) for leaf in refund.TRAIN.task)
    desk = plain_refund.Desk(amount, plain_refund.PHASES[start])
    told = [
        (
            plain_refund.PHASES.index(end.phase),
            *(end.done, end.refunded, end.violation, end.effects, end.success, end.duplicate),
            lived,
        )
        for end, lived in plain_refund.endings(desk, refund.HORIZON)
    ]
    np.testing.assert_array_equal(outcome_of_all[number], told)


@pytest.fixture(scope="module")
def outcome_of_all():
    """[K, 4^7, 8]: how the library's desk ends after every sequence of seven actions."""
    every = np.array(list(product(range(4), repeat=refund.HORIZON)), np.int32)

    def outcome(task, actions):
        seen = replayed(refund.gym(), Play(task, actions, jnp.zeros(refund.HORIZON)))
        state, verdict = jax.tree.map(lambda leaf: leaf[-1], (seen.state, seen.verdict))
        bypassed, duplicate = verdict.violations
        facts = (verdict.done, state.refunded, bypassed, state.effects, verdict.success, duplicate)
        return jnp.stack([seen.obs[-1], *facts, seen.live.sum()])

    return jax.jit(jax.vmap(jax.vmap(outcome, (None, 0)), (0, None)))(refund.TRAIN.task, every)


@given(actions=st.lists(st.sampled_from(plain_refund.ACTIONS), min_size=7, max_size=7))
@many
def test_the_plain_desk_walked_as_a_tree_is_the_plain_desk_played(actions):
    codes = [plain_refund.ACTIONS.index(action) for action in actions]
    position = int("".join(map(str, codes)), base=4)
    assert walked()[position] == plain_refund.play(plain_refund.Desk(80, "start"), actions)


@cache
def walked() -> list[tuple[plain_refund.Desk, int]]:
    return list(plain_refund.endings(plain_refund.Desk(80, "start"), 7))


def test_the_expert_ends_every_published_task_in_compliance():
    problem = refund.problem()
    for tasks in (problem.taught, problem.train, problem.held_out):
        for amount, start in zip(*tasks.task, strict=True):
            desk = plain_refund.Desk(int(amount), plain_refund.PHASES[start])
            task = refund.Task(jnp.int32(amount), jnp.int32(start))
            while not desk.done:
                advice = problem.expert(task, jnp.int32(plain_refund.PHASES.index(desk.phase)))
                desk = plain_refund.act(desk, plain_refund.ACTIONS[int(advice)])
            assert desk.success and not desk.violation and not desk.duplicate


# The bandit


@pytest.mark.parametrize("arm", range(4))
def test_the_bandit_pays_its_arm_and_calls_the_best_one_success(arm):
    pays = list(bandit.PAYS.values())
    task = bandit.Task(jnp.int32(0))
    before = bandit.gym().reset(task)
    after = bandit.gym().step(task, before, jnp.int32(arm), jnp.int32(0))
    verdict = bandit.gym().judge(task, after)
    assert float(bandit.payoff()(before, jnp.int32(arm), jnp.int32(0))) == np.float32(pays[arm])
    assert bool(verdict.done) and bool(verdict.success) == (pays[arm] == max(pays))


# Number search


def played_by_median(num_numbers: int, budget: int) -> Trajectory:
    problem = number_search.problem(num_numbers, budget)
    silence = Noise(np.zeros(budget), np.zeros(budget))
    play = lambda task: rollout(problem.gym, policies.scripted(problem.expert, task), task, silence)
    return jax.jit(jax.vmap(play))(problem.train.task)


@pytest.mark.parametrize(("budget", "found"), [(4, Fraction(15, 16)), (5, Fraction(1))])
def test_the_median_finds_15_of_16_in_four_guesses_and_all_in_five(budget, found):
    seen = played_by_median(16, budget)
    assert Fraction(int(seen.verdict.success[:, -1].sum()), 16) == found


@pytest.mark.parametrize(("num_numbers", "budget"), [(1, 1), (6, 2), (64, 6)])
def test_guesses_that_must_end_on_the_number_reach_two_to_the_budget_less_one(num_numbers, budget):
    seen = played_by_median(num_numbers, budget)
    assert int(seen.verdict.success[:, -1].sum()) == min(num_numbers, 2**budget - 1)


SMALL = 6
INTERVALS = [(low, high) for low in range(SMALL) for high in range(low + 1, SMALL + 1)]


def test_a_guess_outside_the_interval_is_wasted():
    outside = [
        (low, high, hidden, guess)
        for low, high in INTERVALS
        for hidden in range(low, high)
        for guess in {*range(low), *range(high, SMALL)}
    ]
    low, high, hidden, guess = np.array(outside, np.int32).T
    state = number_search.State(low, high, np.zeros(len(low), bool), np.ones_like(low))
    gym = number_search.gym(SMALL, 4)
    after = jax.vmap(gym.step)(number_search.Task(hidden), state, guess, np.zeros_like(guess))
    chex.assert_trees_all_equal(after, state._replace(guesses=state.guesses + 1))


def test_the_hidden_number_is_never_cut_away_and_a_guess_inside_shrinks_the_interval():
    every = [(low, high, hidden, guess) for low, high in INTERVALS
             for hidden in range(low, high) for guess in range(SMALL)]  # fmt: skip
    low, high, hidden, guess = np.array(every, np.int32).T
    state = number_search.State(low, high, np.zeros(len(low), bool), np.zeros_like(low))
    step = number_search.gym(SMALL, 4).step
    after = jax.vmap(step)(number_search.Task(hidden), state, guess, np.zeros_like(guess))
    assert (after.found == (hidden == guess)).all()
    assert ((low <= after.low) & (after.low <= hidden)).all()
    assert ((hidden < after.high) & (after.high <= high)).all()
    missed_inside = ~after.found & (low <= guess) & (guess < high)
    assert (after.high - after.low < high - low)[missed_inside].all()


@pytest.mark.parametrize("name", ["number_search", "belief"])
@given(seed=seeds)
@few
def test_a_search_lasts_until_the_number_is_found_or_the_budget_is_spent(name, seed):
    _, seen = random_plays(name, seed)
    found = seen.verdict.success
    found_after = np.where(found.any(axis=1), found.argmax(axis=1), SUBJECTS[name].horizon)
    lived = np.minimum(found_after, number_search.BUDGET)
    np.testing.assert_array_equal(seen.live.sum(axis=1), lived)
    assert SUBJECTS[name].horizon > number_search.BUDGET and set(lived) == {1, 2, 3, 4}


@pytest.mark.parametrize("num_numbers", [1, 2, 6, 16, 64])
def test_interval_codes_are_a_bijection_with_the_named_observations(num_numbers):
    names = number_search.spec(num_numbers).observations
    low, high = number_search.bounds(num_numbers)[:-1].T
    code = number_search.interval(num_numbers, jnp.asarray(low), jnp.asarray(high)).tolist()
    assert sorted(code) == list(range(num_numbers * (num_numbers + 1) // 2))
    named = [f"{first}-{last}" for first, last in zip(low + 1, high, strict=True)]
    assert [names[row] for row in code] == named
    assert names[len(named) :] == ("terminal",)


def test_sixty_four_numbers_work_and_sixty_five_are_refused_with_their_size():
    assert len(number_search.gym(64).spec.observations) == sum(range(65)) + 1
    for make in (number_search.gym, number_search.belief, number_search.problem):
        with pytest.raises(ValueError, match=r"1 to 64 numbers.* got 65 \(2,146 rows of 65 logits"):
            make(65)
    with pytest.raises(ValueError, match="at least 1 guess, got 0"):
        number_search.gym(16, 0)
    with pytest.raises(ValueError, match=r"1 to 64 numbers.* got 0"):
        number_search.gym(0)


def test_the_odds_of_belief_are_the_posterior_over_hidden_numbers():
    rows = [(low, high, guess) for low, high in INTERVALS for guess in range(SMALL)]
    low, high, guess = np.array(rows, np.int32).T
    state = number_search.State(low, high, np.zeros(len(low), bool), np.zeros_like(low))
    whole = number_search.Interval(jnp.int32(0), jnp.int32(SMALL))
    odds = jax.vmap(number_search.belief(SMALL, 4).odds, (None, 0, 0))(whole, state, guess)
    for row, (low, high, guess) in enumerate(rows):
        hidden = range(low, high)
        right, lower = (sum(test(h) for h in hidden) for test in (guess.__eq__, guess.__gt__))
        counts = np.array([right, lower, len(hidden) - right - lower])
        np.testing.assert_allclose(odds[row], counts / len(hidden), rtol=1e-6)


@given(table=arrays(np.int32, len(INTERVALS) + 1, elements=st.integers(0, SMALL - 1)))
@many
def test_a_policy_succeeds_as_often_in_belief_as_over_all_hidden_numbers(table):
    told = plain_success(table, 0, SMALL, guesses=3)
    np.testing.assert_allclose(success_over_hidden(table), told, atol=1e-6)
    np.testing.assert_allclose(success_in_belief(table), told, atol=1e-6)


def plain_success(table: np.ndarray, low: int, high: int, guesses: int) -> float:
    """Chance of finding a number uniform in [low, high) when the interval decides the guess."""
    if guesses == 0 or low == high:
        return 0.0
    guess = int(table[INTERVALS.index((low, high))])
    if not low <= guess < high:
        return plain_success(table, low, high, guesses - 1)
    below = (guess - low) * plain_success(table, low, guess, guesses - 1)
    above = (high - guess - 1) * plain_success(table, guess + 1, high, guesses - 1)
    return (1 + below + above) / (high - low)


@jax.jit
def success_over_hidden(table):
    """The mean over hidden numbers of playing `table` with three guesses."""
    gym, silence = number_search.gym(SMALL, 3), Noise(jnp.zeros(3), jnp.zeros(3))
    actor = lambda noise, obs: (table[obs], jnp.zeros(()))
    play = lambda task: rollout(gym, actor, task, silence).verdict.success[-1]
    return jax.vmap(play)(number_search.Task(jnp.arange(SMALL))).mean()


@jax.jit
def success_in_belief(table):
    """The sum over all answers that chance may give to `table`, each with its odds."""
    gym = number_search.belief(SMALL, 3)
    whole = number_search.Interval(jnp.int32(0), jnp.int32(SMALL))

    def answered(answers):
        state, probability = gym.reset(whole), jnp.ones(())
        for answer in answers:
            guess = table[gym.observe(whole, state)]
            over = gym.judge(whole, state).done
            certain = (answer == number_search.CORRECT).astype(float)
            odds = gym.odds(whole, state, guess)[answer]
            probability = probability * jnp.where(over, certain, odds)
            moved = gym.step(whole, state, guess, answer)
            state = jax.tree.map(partial(jnp.where, over), state, moved)
        return jnp.where(state.found, probability, 0)

    return jax.vmap(answered)(np.array(list(product(range(3), repeat=3)))).sum()
