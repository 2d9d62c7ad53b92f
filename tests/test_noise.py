"""Noise: the published cipher, injective addresses, and draws that depend on nothing else."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxagent import noise
from jaxagent.precision import exact

LAW = settings(max_examples=200, deadline=None, derandomize=True)
NUM_STEPS, NUM_TASKS, NUM_ROLLOUTS, SEED = 7, 3, 5, 3
ZERO_WORD, FULL_WORD = 0, 2**32 - 1
# The last is what float32 makes of the largest uniforms of a float64 stream.
EXTREME_UNIFORMS = (0.0, 2.0**-24, 0.5, 1 - 2.0**-24, 1.0)

# key, counter -> block, of 20 rounds: the known answers of Random123 (Salmon et al. 2011)
KNOWN_ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def threefry_in_integers(key, counter):
    """Threefry-2x32-20 from the paper, in Python's integers."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (counter[0] + keys[0]) % 2**32, (counter[1] + keys[1]) % 2**32
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for number in range(20):
        x = (x + y) % 2**32
        left = rotations[number % 8]
        y = x ^ ((y << left) % 2**32 | y >> (32 - left))
        if number % 4 == 3:
            block = number // 4 + 1
            x = (x + keys[block % 3]) % 2**32
            y = (y + keys[(block + 1) % 3] + block) % 2**32
    return x, y


cipher = jax.jit(noise.threefry2x32)
words = st.integers(ZERO_WORD, FULL_WORD)


def encrypt(key, counter):
    return tuple(int(word) for word in cipher(*(np.uint32(word) for word in (*key, *counter))))


@pytest.mark.x64
@pytest.mark.parametrize(("key", "counter", "block"), KNOWN_ANSWERS)
def test_the_cipher_meets_the_published_answers(key, counter, block):
    assert encrypt(key, counter) == block


@LAW
@given(st.tuples(words, words), st.tuples(words, words))
def test_the_cipher_agrees_with_integer_arithmetic(key, counter):
    assert encrypt(key, counter) == threefry_in_integers(key, counter)


FIELDS = {
    "round": noise.MAX_ROUNDS,
    "purpose": noise.MAX_PURPOSES,
    "pair": noise.MAX_STEPS // 2,
    "task": noise.MAX_TASKS,
    "rollout": noise.MAX_ROLLOUTS,
}
pack = jax.jit(noise.counter)


def packed(address):
    return tuple(int(word) for word in pack(*(np.uint32(part) for part in address)))


def near_the_ends(size):
    return st.one_of(st.integers(0, 2), st.integers(size - 3, size - 1), st.integers(0, size - 1))


addresses = st.tuples(*map(near_the_ends, FIELDS.values()))


@LAW
@given(addresses)
def test_an_address_can_be_read_back_from_its_words(address):
    high, low = packed(address)
    assert address == (high >> 12, high >> 10 & 3, high & 1023, low >> 16, low & 65535)


@LAW
@given(addresses, st.integers(0, len(FIELDS) - 1), st.data())
def test_changing_one_field_changes_the_address(address, place, data):
    other = list(address)
    other[place] = data.draw(near_the_ends(list(FIELDS.values())[place]))
    assert (packed(address) == packed(other)) == (address == tuple(other))


def test_both_extremes_of_every_field_fit():
    assert packed([0] * len(FIELDS)) == (ZERO_WORD, ZERO_WORD)
    assert packed([size - 1 for size in FIELDS.values()]) == (FULL_WORD, FULL_WORD)


def stream(seed=0, run=0, round=0):
    return noise.Stream(jnp.uint32(seed), jnp.uint32(run), jnp.uint32(round))


episode = jax.jit(noise.episode, static_argnames="num_steps")


OVERFLOWS = {
    "seed": lambda: noise.rounds(2**32, 0, 1),
    "run": lambda: noise.rounds(0, 2**32, 1),
    "num_rounds": lambda: noise.rounds(0, 0, noise.MAX_ROUNDS + 1),
    "num_steps": lambda: noise.episode(stream(), 0, 0, noise.MAX_STEPS + 1),
    "purpose": lambda: noise.uniforms(stream(), 0, 0, 1, noise.MAX_PURPOSES),
    "task": lambda: noise.episode(stream(), noise.MAX_TASKS, 0, 1),
    "rollout": lambda: noise.episode(stream(), 0, noise.MAX_ROLLOUTS, 1),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_field_that_overflows_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"^{name} must be in"):
        OVERFLOWS[name]()


@pytest.mark.parametrize("seed", [-1, 2**32, 2**40])
def test_a_seed_does_not_wrap_around_to_another(seed):
    with pytest.raises(ValueError, match="seed must be in"):
        noise.rounds(seed, 0, 1)


def batch(num_steps):
    """The noise [K G T] of one round."""
    one = lambda task, rollout: noise.episode(stream(SEED), task, rollout, num_steps)
    over_rollouts = jax.vmap(one, in_axes=(None, 0))
    over_tasks = jax.jit(jax.vmap(over_rollouts, in_axes=(0, None)))
    return over_tasks(jnp.arange(NUM_TASKS), jnp.arange(NUM_ROLLOUTS))


@pytest.fixture(scope="module")
def drawn():
    return batch(NUM_STEPS)


@pytest.mark.x64
def test_draws_are_multiples_of_two_to_the_minus_24_below_one(drawn):
    multiples = np.asarray(drawn.action, np.float64) * 2**24
    assert (multiples == np.floor(multiples)).all()
    assert (multiples >= 0).all() and (multiples < 2**24).all()


def test_float32_and_float64_draw_the_same_uniforms(drawn):
    in_float64 = exact(batch)(NUM_STEPS)
    assert in_float64.action.dtype == np.float64
    for ours, theirs in zip(drawn, in_float64, strict=True):
        np.testing.assert_array_equal(np.asarray(ours, np.float64), theirs)


def test_the_largest_bits_stay_below_one():
    largest = noise.unit(jnp.uint32(FULL_WORD))
    assert float(largest) == 1 - 2**-24


def test_a_draw_is_the_documented_function_of_its_address():
    seed, run, round, task, rollout, step = 5, 6, 7, 8, 9, 3
    given_stream = stream(seed, run, round)
    ours = noise.uniforms(given_stream, task, rollout, step + 1, noise.CHANCE)[step]
    high = round << 12 | noise.CHANCE << 10 | step // 2
    block = threefry_in_integers((seed, run), (high, task << 16 | rollout))
    assert float(ours) == (block[step % 2] >> 8) * 2.0**-24


@pytest.mark.parametrize(("task", "rollout"), [(0, 0), (1, 3), (NUM_TASKS - 1, NUM_ROLLOUTS - 1)])
def test_a_draw_does_not_depend_on_its_batch(drawn, task, rollout):
    alone = episode(stream(SEED), jnp.int32(task), jnp.int32(rollout), num_steps=NUM_STEPS)
    np.testing.assert_array_equal(alone.action, drawn.action[task, rollout])
    np.testing.assert_array_equal(alone.chance, drawn.chance[task, rollout])


def test_a_draw_does_not_depend_on_order_or_neighbours(drawn):
    order = jnp.array([4, 0, 0, 3, 17])
    one = lambda rollout: noise.episode(stream(SEED), 1, rollout, NUM_STEPS)
    mixed = jax.jit(jax.vmap(one))(order)
    np.testing.assert_array_equal(mixed.action[:4], drawn.action[1, order[:4]])


@pytest.mark.parametrize("num_steps", [1, 4])
def test_fewer_steps_are_a_prefix_of_more(drawn, num_steps):
    fewer = batch(num_steps)
    np.testing.assert_array_equal(fewer.action, drawn.action[..., :num_steps])


def test_no_two_draws_of_a_batch_coincide(drawn):
    every = np.concatenate([np.ravel(part) for part in drawn])
    assert len(np.unique(every)) == len(every)


def test_actions_and_chance_read_different_draws(drawn):
    assert (drawn.action != drawn.chance).all()


@pytest.mark.parametrize("named", ["seed", "run", "round"])
def test_every_seed_run_and_round_has_a_stream_of_its_own(named):
    num_streams = 256
    draw = lambda number: noise.uniforms(stream(**{named: number}), 0, 0, 4, noise.ACTION)
    streams = np.asarray(jax.jit(jax.vmap(draw))(jnp.arange(num_streams, dtype=jnp.uint32)))
    assert len(np.unique(streams, axis=0)) == num_streams


def test_rounds_number_the_rounds_of_one_run():
    run = noise.rounds(seed=9, run=4, num_rounds=3)
    np.testing.assert_array_equal(run, [[9] * 3, [4] * 3, [0, 1, 2]])
    assert {leaf.dtype for leaf in run} == {jnp.dtype("uint32")}


NUM_WEIGHTS = 6
draw_float32 = jax.jit(noise.draw)
some_weights = st.lists(
    st.one_of(st.just(0.0), st.floats(2.0**-60, 2.0**60, width=32)),
    min_size=NUM_WEIGHTS,
    max_size=NUM_WEIGHTS,
).filter(any)
some_uniforms = st.one_of(
    st.sampled_from(EXTREME_UNIFORMS), st.integers(0, 2**24 - 1).map(lambda bits: bits * 2.0**-24)
)


@settings(LAW, max_examples=500)
@given(some_weights, some_uniforms)
def test_a_weight_of_zero_is_never_drawn(weight, uniform):
    index = int(draw_float32(np.float32(weight), np.float32(uniform)))
    assert 0 <= index < NUM_WEIGHTS
    assert weight[index] > 0


@pytest.mark.x64
@pytest.mark.parametrize("uniform", EXTREME_UNIFORMS)
@pytest.mark.parametrize("weight", [(0, 0, 0.7, 0, 0.1, 0), (0, 0.1, 0, 0, 0, 0), (0.3, *[0] * 5)])
def test_zeros_at_the_ends_are_never_drawn_at_the_extremes(weight, uniform):
    assert weight[int(draw_float32(np.float32(weight), np.float32(uniform)))] > 0


def test_draw_is_the_choice_that_python_makes():
    generator, replayed = random.Random(5), random.Random(5)
    weights = np.random.default_rng(5).exponential(size=(3000, NUM_WEIGHTS)) ** 3
    weights[::3, 2] = 0
    chosen = [generator.choices(range(NUM_WEIGHTS), weight.tolist())[0] for weight in weights]
    uniforms = np.array([replayed.random() for _ in weights])
    np.testing.assert_array_equal(exact(jax.vmap(noise.draw))(weights, uniforms), chosen)


def test_draw_takes_the_next_outcome_when_a_sum_is_met_exactly():
    assert int(draw_float32(np.float32([0.25] * 4 + [0, 0]), np.float32(0.5))) == 2


@pytest.mark.parametrize("seed", [np.int64(2**32), np.int64(-1), np.array([0, 2**32])])
def test_concrete_arrays_that_overflow_are_refused_too(seed):
    with pytest.raises(ValueError, match="seed must be in"):
        noise.field("seed", seed, noise.MAX_WORD)
