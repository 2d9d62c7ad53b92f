"""Laws of the one learning loop; the sequential one against the chapter's loop in NumPy."""

from functools import cache, partial
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jaxagent import estimators, learn, losses, noise, policies, scorers
from jaxagent.diagnostics import clipping
from jaxagent.gyms import refund
from jaxagent.precision import exact
from jaxagent.rollout import collector
from jaxagent.types import Decision, Trajectory

NUM_ROWS, CLIP, LR, PASSES = 12, 0.2, 0.04, 2
SPEC = refund.gym().spec
POLICY = policies.tabular(SPEC)
SHAPE = (len(SPEC.observations), len(SPEC.actions))
K, GROUP_SIZE, HORIZON = len(refund.TRAIN.names), 4, refund.HORIZON
some = settings(max_examples=40, deadline=None, derandomize=True)
few = settings(max_examples=10, deadline=None, derandomize=True)
flags = arrays(bool, NUM_ROWS)
tables = arrays(np.float64, SHAPE, elements=st.floats(-2, 2))


@st.composite
def decisions(draw) -> Decision:
    """Rows of training data, of which any number may not teach."""
    codes = lambda most: arrays(np.int32, NUM_ROWS, elements=st.integers(0, most - 1))
    numbers = lambda least, most: arrays(
        np.float64, NUM_ROWS, elements=st.floats(least, most, allow_subnormal=False)
    )
    teaches = draw(flags)
    return Decision(
        obs=draw(codes(SHAPE[0])),
        action=draw(codes(SHAPE[1])),
        log_prob=draw(numbers(-3, -0.01)),
        advantage=draw(numbers(-2, 2)),
        weight=teaches.astype(float),
        eligible=teaches,
    )


def surrogate(clip: float = CLIP):
    return learn.objective(POLICY, losses.clipped_surrogate(clip))


@cache
def updating(optimizer_of, batch_size: int | None, passes: int = PASSES):
    """The jitted, exact `descend`: `(table, rows) -> (learner, audit)`."""
    optimizer = optimizer_of()
    audit = clipping(POLICY, CLIP)
    update = learn.descend(
        surrogate(), optimizer, passes=passes, batch_size=batch_size, audit=audit
    )
    return exact(jax.jit(lambda table, rows: update(learn.start(table, optimizer), rows)))


def sgd() -> optax.GradientTransformation:
    return optax.sgd(LR)


def momentum() -> optax.GradientTransformation:
    return optax.sgd(LR, momentum=0.9)


def adam() -> optax.GradientTransformation:
    return optax.adam(LR)


# The sequential update


class Plain(NamedTuple):
    """What the chapter's loop leaves behind."""

    table: np.ndarray
    clipped: list[int]  # by pass
    updates: int


def chapter_loop(table: np.ndarray, rows: Decision) -> Plain:
    """Chapter section 23.6: one clipped score step a row, in order, rho against the CURRENT row."""
    table, clipped, updates = table.copy(), [0] * PASSES, 0
    for passed in range(PASSES):
        for obs, action, log_prob, advantage, weight, _ in zip(*rows, strict=True):
            if weight == 0:
                continue
            probability = np.exp(table[obs] - table[obs].max())
            probability /= probability.sum()
            ratio = probability[action] / np.exp(log_prob)
            too_good, too_bad = ratio > 1 + CLIP, ratio < 1 - CLIP
            if (advantage > 0 and too_good) or (advantage < 0 and too_bad):
                clipped[passed] += 1
                continue
            onehot = np.arange(SHAPE[1]) == action
            table[obs] += LR * ratio * advantage * (onehot - probability)
            updates += 1
    return Plain(table, clipped, updates)


@given(table=tables, rows=decisions())
@some
def test_a_batch_size_of_one_is_the_chapters_loop(table, rows):
    learner, audit = updating(sgd, 1)(table, rows)
    told = chapter_loop(table, rows)
    np.testing.assert_allclose(learner.params, told.table, atol=1e-12)
    assert audit.counts.zeroed.tolist() == told.clipped
    assert int(rows.eligible.sum()) * PASSES - sum(told.clipped) == told.updates


def training() -> tuple:
    """A collector, an estimator and the guarded, sequential training step that they make."""
    collect = collector(
        refund.gym(), POLICY, refund.TRAIN.task, group_size=GROUP_SIZE, horizon=HORIZON
    )
    estimator, audit = estimators.anchor(refund.gym().spec), clipping(POLICY, CLIP)
    update = learn.descend(surrogate(), sgd(), passes=PASSES, batch_size=1, audit=audit)
    return collect, estimator, learn.on_policy(collect, guarded(), estimator, update)


def guarded() -> scorers.Scorer:
    return scorers.guarded(scorers.outcome(0.05), jnp.array([2.0, 1.0]))


def stream_of(index: int) -> noise.Stream:
    return noise.Stream(*(jnp.uint32(word) for word in (7, index, 0)))


def some_logits(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=SHAPE)


def play_round(index, table):
    """What a guarded round starts from and what it makes of it."""
    collect, estimator, step = training()
    batch = collect(stream_of(index), table)
    scores = jax.vmap(jax.vmap(partial(scorers.score, guarded())))(batch)
    advantage = jax.vmap(partial(estimator, table))(batch, scores)
    return batch, scores, advantage, step(learn.start(table, sgd()), stream_of(index))


one_round = exact(jax.jit(play_round))


@given(index=st.integers(0, 10**6))
@few
def test_a_round_is_collected_compared_vetoed_and_learned_from_as_in_the_chapter(index):
    table = some_logits(index)
    batch, scores, advantage, (learner, metrics) = one_round(np.uint32(index), table)
    teaches = batch.live & scores.eligible[:, :, None]
    flat = (batch.obs[..., :-1], batch.action, batch.log_prob, advantage, teaches, teaches)
    told = chapter_loop(table, Decision(*(field.ravel() for field in flat)))
    np.testing.assert_allclose(learner.params, told.table, atol=1e-12)
    np.testing.assert_array_equal(metrics.update.counts.zeroed, told.clipped)
    assert metrics.eligible * PASSES - metrics.update.counts.zeroed.sum() == told.updates
    assert metrics.update.vetoed.tolist() == [0, 0]


@given(index=st.integers(0, 10**6))
@few
def test_the_history_counts_what_the_batch_holds(index):
    batch, scores, _, (_, metrics) = one_round(np.uint32(index), some_logits(index))
    state, verdict = (jax.tree.map(lambda leaf: leaf[:, :, -1], of) for of in batch[-2:])
    in_task = lambda flag: flag.sum(axis=1).tolist()
    assert metrics.success.tolist() == in_task(verdict.done & state.refunded)
    assert metrics.violation[:, 0].tolist() == in_task(state.violation)
    assert metrics.violation[:, 1].tolist() == in_task(state.effects > 1)
    assert metrics.vetoed == (state.violation | (state.effects > 1)).sum()
    assert metrics.transitions == batch.live.sum()
    assert metrics.eligible == batch.live[scores.eligible].sum()
    ties = [len(set(totals)) == 1 for totals in scores.total.tolist()]
    assert metrics.degenerate == sum(ties) and not metrics.failed.any()
    np.testing.assert_allclose(metrics.reward, scores.total.mean(axis=1), rtol=1e-12)


# Batches

batched = jax.jit(learn.batched, static_argnums=1)


@pytest.mark.parametrize("batch_size", [1, 5, NUM_ROWS, None])
@given(table=tables, rows=decisions())
@few
def test_a_pass_takes_one_step_for_every_n_rows_that_teach(batch_size, table, rows):
    learner, _ = updating(adam, batch_size)(table, rows)
    each_pass = -(-int(rows.eligible.sum()) // (batch_size or NUM_ROWS))
    assert optax.tree_utils.tree_get(learner.opt_state, "count") == PASSES * each_pass


@pytest.mark.x64
@given(rows=decisions(), batch_size=st.sampled_from([2, 5]))
@few
def test_rows_that_teach_move_to_the_front_in_order(rows, batch_size):
    rows = jax.tree.map(jnp.asarray, rows._replace(obs=np.arange(NUM_ROWS, dtype=np.int32)))
    batches = batched(rows, batch_size)
    order = [*np.flatnonzero(rows.eligible), *np.flatnonzero(~rows.eligible)]
    assert batches.obs.shape == (-(-NUM_ROWS // batch_size), batch_size)
    assert batches.obs.ravel()[:NUM_ROWS].tolist() == order
    for field, batch in zip(rows, batches, strict=True):
        np.testing.assert_array_equal(batch.ravel()[:NUM_ROWS], field[np.array(order)])
    assert not batches.weight.ravel()[NUM_ROWS:].any()


@pytest.mark.parametrize("batch_size", [1, None])
@given(rows=decisions())
@few
def test_rows_that_are_not_moved_stay_in_order_too(batch_size, rows):
    rows = jax.tree.map(jnp.asarray, rows)
    batches = batched(rows, NUM_ROWS if batch_size is None else batch_size)
    chex.assert_trees_all_equal(jax.tree.map(jnp.ravel, batches), rows)


def test_passes_and_batch_sizes_below_one_are_refused():
    for sizes in ({"passes": 0}, {"passes": 1, "batch_size": 0}):
        with pytest.raises(ValueError, match="at least 1, got"):
            learn.descend(surrogate(), sgd(), **sizes)


# The veto


@cache
def taught_then(optimizer_of, batch_size: int | None):
    """The jitted `(table, taught, refused) -> learner` after the first and after both."""
    optimizer = optimizer_of()
    update = learn.descend(surrogate(), optimizer, passes=PASSES, batch_size=batch_size)

    def both(table, taught, refused):
        after, _ = update(learn.start(table, optimizer), taught)
        return after, update(after, refused)[0]

    return jax.jit(both)


@pytest.mark.x64
@pytest.mark.parametrize(
    ("optimizer_of", "batch_size"), [(sgd, 1), (momentum, 5), (adam, 1), (adam, None)]
)
@given(table=tables, taught=decisions(), refused=decisions())
@few
def test_a_batch_without_permission_moves_nothing_momentum_included(
    optimizer_of, batch_size, table, taught, refused
):
    taught = taught._replace(weight=np.ones(NUM_ROWS), advantage=taught.advantage + 3)
    refused = refused._replace(weight=np.zeros(NUM_ROWS))
    as_floats = partial(jax.tree.map, partial(jnp.asarray, dtype=float))
    taught, refused = (
        rows._replace(**as_floats({name: getattr(rows, name) for name in FLOATS}))
        for rows in (taught, refused)
    )
    before, after = taught_then(optimizer_of, batch_size)(as_floats(table), taught, refused)
    chex.assert_trees_all_equal(after, before)


FLOATS = ("log_prob", "advantage", "weight")


@pytest.mark.parametrize("optimizer_of", [momentum, adam])
def test_a_gradient_of_zero_alone_would_be_no_veto(optimizer_of):
    optimizer, table = optimizer_of(), jnp.zeros(SHAPE)
    _, opt_state = optimizer.update(jnp.ones(SHAPE), optimizer.init(table))
    moved, _ = optimizer.update(jnp.zeros(SHAPE), opt_state)
    assert (moved != 0).all()


def exploiter() -> np.ndarray:
    """Logits of a policy that mostly refunds: it bypasses approval and refunds twice."""
    table = np.zeros(SHAPE)
    table[:, refund.REFUND] = 2.0
    table[[refund.START, refund.RECOVER], refund.LOOKUP] = 3.0
    return table


def test_a_forgotten_veto_is_counted_inside_the_update(monkeypatch):
    *_, (_, honest) = one_round(np.uint32(0), exploiter())
    assert honest.vetoed > 0
    assert honest.update.vetoed.tolist() == [0, 0]

    decide = learn.decisions

    def forgets(batch, advantage, eligible, weight):
        taught = decide(batch, advantage, jnp.ones_like(eligible), weight)
        return taught._replace(eligible=decide(batch, advantage, eligible, weight).eligible)

    monkeypatch.setattr(learn, "decisions", forgets)
    retraced = lambda index, table: play_round(index, table)
    *_, (_, planted) = exact(jax.jit(retraced))(np.uint32(0), exploiter())
    refused = planted.transitions - planted.eligible
    assert refused > 0 and planted.update.vetoed.tolist() == [refused, refused]


# The objective


@exact
@jax.jit
def gradient(table, rows):
    return jax.grad(surrogate())(table, rows)


@given(table=tables, rows=decisions(), first=flags)
@some
def test_the_gradient_of_a_batch_is_the_sum_over_any_split(table, rows, first):
    part = lambda keep: gradient(table, rows._replace(weight=rows.weight * keep))
    whole = gradient(table, rows._replace(weight=rows.weight * 1.0))
    np.testing.assert_allclose(part(first) + part(~first), whole, atol=1e-12)


@given(table=tables, rows=decisions(), scale=st.floats(0.1, 3))
@some
def test_the_gradient_is_linear_in_the_weights(table, rows, scale):
    scaled = gradient(table, rows._replace(weight=rows.weight * scale))
    np.testing.assert_allclose(scaled, scale * gradient(table, rows), atol=1e-12)


@pytest.mark.parametrize("filling", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(("optimizer_of", "batch_size"), [(sgd, 1), (adam, None)])
@given(table=tables, rows=decisions())
@few
def test_what_stands_in_a_masked_row_changes_no_bit(optimizer_of, batch_size, filling, table, rows):
    masked = ~rows.eligible
    numbers = {name: getattr(rows, name).copy() for name in ("log_prob", "advantage")}
    for field in numbers.values():
        field[masked] = filling
    codes = {name: np.where(masked, 10**6, getattr(rows, name)) for name in ("obs", "action")}
    codes = {name: code.astype(np.int32) for name, code in codes.items()}
    update = updating(optimizer_of, batch_size)
    chex.assert_trees_all_equal(
        update(table, rows._replace(**numbers, **codes)), update(table, rows)
    )


# Weighted tasks


@exact
@jax.jit
def rows_taught(batch, weight):
    """The rows that a guarded round of `batch` learns from: tasks weighted, and not."""
    given, keep = lambda noise, params: noise, lambda learner, rows: (learner, rows)
    step = partial(learn.on_policy, given, guarded(), estimators.anchor(refund.gym().spec), keep)
    learner = learn.Learner(POLICY.init(), ())
    return step(weight)(learner, batch)[1].update, step()(learner, batch)[1].update


weights = arrays(np.int32, K, elements=st.integers(0, 5)).filter(np.any)


@given(index=st.integers(0, 10**6), weight=weights)
@few
def test_tasks_weigh_in_proportion_to_their_probability(index, weight):
    probability = weight / weight.sum()
    batch, *_ = one_round(np.uint32(index), exploiter())
    refused = batch.state.violation[:, :, -1] | (batch.state.effects[:, :, -1] > 1)
    teaches = batch.live & ~refused[:, :, None]
    told = np.where(teaches, K * probability[:, None, None], 0)
    np.testing.assert_allclose(rows_taught(batch, probability)[0].weight, told.ravel(), rtol=1e-12)


def test_equal_tasks_weigh_as_if_no_weight_were_given():
    batch, *_ = one_round(np.uint32(0), exploiter())
    weighted, plain = rows_taught(batch, refund.TRAIN.weight)
    chex.assert_trees_all_equal(weighted, plain)
    assert set(plain.weight) == {0.0, 1.0}


@given(weight=arrays(np.float64, (K, 1), elements=st.floats(0.1, 2)))
@few
def test_decisions_are_flattened_in_order_and_dead_or_refused_ones_weigh_nothing(weight):
    shape = (K, GROUP_SIZE, HORIZON)
    numbers = np.random.default_rng(0)
    live, eligible = numbers.random(shape) < 0.7, numbers.random(shape[:2]) < 0.5
    place = jnp.arange(np.prod(shape), dtype=jnp.int32).reshape(shape)
    batch = Trajectory(
        obs=jnp.pad(place, ((0, 0), (0, 0), (0, 1)), constant_values=-1),
        action=place + 1,
        chance=place,
        log_prob=place + 0.25,
        live=jnp.asarray(live),
        state=None,
        verdict=None,
    )
    rows = learn.decisions(batch, place + 0.5, jnp.asarray(eligible), jnp.asarray(weight))
    np.testing.assert_array_equal(rows.obs, np.arange(np.prod(shape)))
    np.testing.assert_array_equal(rows.action, rows.obs + 1)
    np.testing.assert_array_equal(rows.log_prob, rows.obs + 0.25)
    np.testing.assert_array_equal(rows.advantage, rows.obs + 0.5)
    told = np.where(live & eligible[:, :, None], weight[:, :, None], 0)
    np.testing.assert_allclose(rows.weight, told.ravel(), rtol=1e-6)
    np.testing.assert_array_equal(rows.eligible, np.repeat(eligible.ravel(), HORIZON))


# Whole runs


class Setting(NamedTuple):
    lr: float
    clip: float


def run(setting: Setting, index, *, num_rounds: int = 2, group_size: int = 2):
    """A tiny guarded training run, whole-batch: parameters, metrics and the batches' actions."""
    collect = collector(
        refund.gym(), POLICY, refund.TRAIN.task, group_size=group_size, horizon=HORIZON
    )
    optimizer = optax.sgd(setting.lr)
    update = learn.descend(
        surrogate(setting.clip), optimizer, passes=1, audit=clipping(POLICY, setting.clip)
    )
    step = learn.on_policy(collect, guarded(), estimators.anchor(refund.gym().spec), update)
    start = learn.start(POLICY.init(), optimizer)
    return jax.lax.scan(step, start, noise.rounds(7, index, num_rounds))


LRS, CLIPS = np.geomspace(0.01, 1, 12, dtype=np.float32), np.float32([0.05, 0.1, 0.2, 0.4])


@pytest.fixture(scope="module")
def grid():
    """A grid of 12 rates x 4 clips x 8 seeds, run twice, and how often it was traced."""
    traces = []

    def traced(setting, index):
        traces.append(setting)
        return run(setting, index)

    seeds = jax.vmap(traced, in_axes=(None, 0))
    clips = jax.vmap(seeds, in_axes=(Setting(None, 0), None))
    rates = jax.jit(jax.vmap(clips, in_axes=(Setting(0, None), None)))
    indices = np.arange(8, dtype=np.uint32)
    results = rates(Setting(LRS, CLIPS), indices)
    rates(Setting(LRS[::-1], CLIPS + 1), indices)
    return jax.device_get(results), len(traces)


def test_a_grid_of_hyper_parameters_is_traced_once_and_every_point_differs(grid):
    (learner, metrics), num_traces = grid
    assert num_traces == 1
    assert learner.params.shape == (12, 4, 8, *SHAPE)
    assert metrics.success.shape == (12, 4, 8, 2, K)
    by_rate = learner.params[:, 0, 0].reshape(12, -1)
    assert len(np.unique(by_rate, axis=0)) == 12


def test_a_new_learning_rate_does_not_retrace_and_is_the_constant_one_bit_for_bit():
    traces = []

    @jax.jit
    def traced(setting, index):
        traces.append(setting)
        return run(setting, index)

    ends = [traced(Setting(lr, CLIP), 3) for lr in (0.1, 0.3, LR)]
    assert len(traces) == 1
    assert len({np.asarray(learner.params).tobytes() for learner, _ in ends}) == 3
    constant = jax.jit(lambda index: run(Setting(LR, CLIP), index))(3)
    chex.assert_trees_all_equal(ends[-1], constant)


def test_seeds_and_rounds_have_trajectories_of_their_own():
    collect, *_ = training()
    index, number = np.array([(seed, 0) for seed in range(64)] + [(0, n) for n in range(1, 64)]).T
    streams = noise.Stream(
        *(jnp.asarray(word, jnp.uint32) for word in (7 + 0 * index, index, number))
    )
    batches = jax.jit(jax.vmap(collect, in_axes=(0, None)))(streams, POLICY.init())
    assert len({actions.tobytes() for actions in np.asarray(batches.action)}) == len(index)


@pytest.mark.x64
def test_every_counter_of_the_history_is_an_integer():
    _, metrics = jax.eval_shape(run, Setting(0.1, 0.2), jnp.uint32(0))
    not_counted = {"reward", "std_within", "std_batch"}
    for name, field in metrics._asdict().items():
        kind = jnp.floating if name in not_counted else jnp.integer
        assert all(jnp.issubdtype(leaf.dtype, kind) for leaf in jax.tree.leaves(field)), name
