"""Precision: float64 inside, NumPy outside, and the process as it was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagent.precision import exact

TINY = 1e-12  # lost beside 1 in float32


def is_on():
    return bool(jax.config.jax_enable_x64)


DEFAULT = is_on()  # read before any test has run


@pytest.mark.x64
def test_inside_is_float64_whatever_the_default():
    assert exact(lambda value: jnp.asarray(value, float) + TINY - value)(np.ones(2)).all()
    assert exact(is_on)()


def test_outside_of_it_the_same_number_is_lost():
    assert not (jnp.asarray(1.0) + TINY - 1.0).any()


@pytest.mark.x64
def test_arrays_leave_as_those_of_numpy_tree_and_all():
    out = exact(lambda: {"table": jnp.ones((2, 3)), "pair": (jnp.int32(1), jnp.zeros(2))})()
    assert out["table"].dtype == out["pair"][1].dtype == np.float64
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(out))


@pytest.mark.x64
def test_the_default_is_restored():
    exact(lambda: None)()
    assert is_on() == DEFAULT


@pytest.mark.x64
def test_the_default_is_restored_after_an_exception():

    def fail():
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        exact(fail)()
    assert is_on() == DEFAULT


def test_scopes_nest():
    inner = exact(is_on)
    assert exact(lambda: (inner(), is_on()))() == (True, True)
    assert is_on() is False


def test_a_compiled_function_has_a_program_for_each_precision():
    double = jax.jit(lambda value: 2 * value)
    value = np.full(3, 0.1)
    assert double(value).dtype == np.float32
    assert exact(double)(value).dtype == np.float64
    assert double(value).dtype == np.float32


def test_arguments_and_name_pass_through():
    @exact
    def divide(over, *, by=1.0):
        """A docstring."""
        return jnp.asarray(over) / by

    assert divide(1.0, by=3.0) == 1 / 3
    assert (divide.__name__, divide.__doc__) == ("divide", "A docstring.")
