"""The one loop in which anything acts, and the collectors that lift it to a batch."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxagent import noise as noises
from jaxagent.policies import greedy, sample
from jaxagent.types import Actor, Collect, Gym, Noise, Params, Policy, Task, Trajectory, is_over


def rollout(gym: Gym, actor: Actor, task: Task, noise: Noise) -> Trajectory:
    """Act in one episode of `task`, one decision per leading entry of `noise`.

    Once the episode is over, done or failed, the state is frozen, nothing is
    earned and `live` is False (Chapter section 23.4).
    """

    def decide(state, noise_t):
        verdict = gym.judge(task, state)
        live = ~is_over(verdict)
        obs = gym.observe(task, state)
        action, log_prob = actor(noise_t.action, obs)
        chance = noises.draw(gym.odds(task, state, action), noise_t.chance)
        moved = gym.step(task, state, action, chance)
        after = jax.tree.map(partial(jnp.where, live), moved, state)
        return after, (obs, action, chance, log_prob, live, state, verdict)

    last, decisions = jax.lax.scan(decide, gym.reset(task), noise)
    obs, action, chance, log_prob, live, state, verdict = decisions
    close = lambda before, end: jnp.append(before, jnp.asarray(end)[None], axis=0)
    return Trajectory(
        obs=close(obs, gym.observe(task, last)),
        action=action,
        chance=chance,
        log_prob=log_prob,
        live=live,
        state=jax.tree.map(close, state, last),
        verdict=jax.tree.map(close, verdict, gym.judge(task, last)),
    )


def collector(gym: Gym, policy: Policy, tasks: Task, *, group_size: int, horizon: int) -> Collect:
    """`(stream, params) -> Trajectory [K G T]`: a group of samples for every task at once."""
    noises.within("group_size", group_size, noises.MAX_ROLLOUTS)
    noises.within("horizon", horizon, noises.MAX_STEPS)
    noises.within("number of tasks", num_tasks(tasks), noises.MAX_TASKS)

    def collect(stream: noises.Stream, params: Params) -> Trajectory:
        def one(number, task, repeat):
            noise = noises.episode(stream, number, repeat, horizon)
            return rollout(gym, sample(policy, params), task, noise)

        group = jax.vmap(one, in_axes=(None, None, 0))
        batch = jax.vmap(group, in_axes=(0, 0, None))
        return batch(jnp.arange(num_tasks(tasks)), tasks, jnp.arange(group_size))

    return collect


def collect_in_order(
    gym: Gym, policy: Policy, tasks: Task, *, group_size: int, horizon: int
) -> Collect:
    """`(uniforms [K G T], params) -> Trajectory [K G T]`, fed by one stream, in order.

    Tasks in order, G rollouts each in a row. A cursor stands in the stream and
    moves by one per live decision: an ended episode consumes nothing, so the
    next rollout reads on where the last one stopped, as a program with one
    generator does. ValueError for a gym in which chance acts.
    """
    refuse_chance(gym, tasks)
    in_order = jax.tree.map(lambda leaf: jnp.repeat(leaf, group_size, axis=0), tasks)

    def collect(uniforms: Float[Array, "KGT"], params: Params) -> Trajectory:
        padded = jnp.append(uniforms, jnp.zeros(horizon, uniforms.dtype))

        def one(cursor, task):
            window = jax.lax.dynamic_slice_in_dim(padded, cursor, horizon)
            trajectory = rollout(gym, sample(policy, params), task, Noise(window, window))
            return cursor + trajectory.live.sum(dtype=jnp.int32), trajectory

        flat = jax.lax.scan(one, jnp.int32(0), in_order)[1]
        split = lambda leaf: leaf.reshape(num_tasks(tasks), group_size, *leaf.shape[1:])
        return jax.tree.map(split, flat)

    return collect


def evaluate(gym: Gym, policy: Policy, params: Params, tasks: Task, noise: Noise) -> Trajectory:
    """Greedy play of every task, [K T]: a frozen policy under a declared decoding rule."""
    return play(gym, lambda _: greedy(policy, params), tasks, noise)


def play(gym: Gym, actor_of: Callable[[Task], Actor], tasks: Task, noise: Noise) -> Trajectory:
    """One rollout [K T] of every task by `actor_of(task)`; the leaves of `noise` are [K T]."""
    return jax.vmap(lambda task, noise: rollout(gym, actor_of(task), task, noise))(tasks, noise)


def silence(gym: Gym, tasks: Task, horizon: int) -> Noise:
    """No noise, [K T]. ValueError for a gym in which chance acts: zeros would choose for it."""
    refuse_chance(gym, tasks)
    zeros = jnp.zeros((num_tasks(tasks), horizon))
    return Noise(zeros, zeros)


def refuse_chance(gym: Gym, tasks: Task) -> None:
    """ValueError for a gym whose steps have more than one outcome."""
    first = jax.tree.map(lambda leaf: leaf[0], tasks)
    (outcomes,) = jax.eval_shape(lambda: gym.odds(first, gym.reset(first), jnp.int32(0))).shape
    if outcomes > 1:
        raise ValueError(f"this needs a gym in which chance does not act, got {outcomes} outcomes")


def num_tasks(tasks: Task) -> int:
    """K, read from the leaves."""
    return len(jax.tree.leaves(tasks)[0])
