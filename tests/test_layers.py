"""The layers hold, and importing the library costs nothing that its user did not ask for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("matplotlib", "xarray", "pyarrow", "plotly", "gymnasium", "gymnax", "ray")
PROGRAM = "jaxagent.__main__"  # importing it runs it
EDGE = ("jaxagent.cli", "jaxagent.report.figures")  # may draw pictures

IMPORT_EVERYTHING = f"""
import importlib, json, pkgutil, sys
import jaxagent
from jax._src import xla_bridge

names = [module.name for module in pkgutil.walk_packages(jaxagent.__path__, "jaxagent.")]
names.remove("{PROGRAM}")
edge = [name for name in names if name.startswith({EDGE})]
for name in names:
    if name not in edge:
        importlib.import_module(name)
heavy = [name for name in {HEAVY} if name in sys.modules]
for name in edge:
    importlib.import_module(name)
print(json.dumps([names, heavy, list(xla_bridge._backends)]))
"""


def python(code: str) -> subprocess.CompletedProcess:
    """`code` in a fresh interpreter that stands in the repository's root."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def imported():
    """All module names, heavy packages after importing all but the edge, backends after all."""
    done = python(IMPORT_EVERYTHING)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_module_is_looked_at(imported):
    names, _, _ = imported
    files = [file.relative_to(ROOT) for file in (ROOT / "jaxagent").rglob("*.py")]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}
    assert modules == {"jaxagent", PROGRAM, *names}


def test_importing_brings_in_nothing_heavy(imported):
    _, heavy, _ = imported
    assert heavy == []


def test_importing_starts_no_backend(imported):
    *_, backends = imported
    assert backends == []


def test_imports_go_down_and_gyms_do_not_know_each_other():
    lint = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    )
    done = python(lint)
    assert done.returncode == 0, done.stdout + done.stderr
