"""jaxagent: the reinforcement learning of tool-using agents as pure functions.

Import the modules you need; `jaxagent.types` is the glossary.

    gyms, tables, table_files, wrappers     environments
    policies, rollout, noise                acting
    scorers, estimators, losses, learn      learning
    imitate, runs, seeds                    demonstrations, whole runs, many runs
    trajectories, diagnostics, precision    reading, measuring, float64
"""

__version__ = "0.1.0"
