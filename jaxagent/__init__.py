"""jaxagent: the reinforcement learning of tool-using agents as pure functions."""

__version__ = "0.1.0"
