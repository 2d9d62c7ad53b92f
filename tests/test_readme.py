"""Every block of the README runs, and prints what it says it prints."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_python_blocks_run_in_order_and_print_the_text_beneath(capsys):
    names: dict = {}
    blocks = [(kind, text) for kind, text in BLOCK.findall(README) if kind in ("python", "text")]
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "README.md", "exec"), names)
        else:
            assert capsys.readouterr().out == text
    assert names["mine"] and names["dearer"] and names["stairs"]


def test_quick_start_holds_two_command_lines():
    quick = README.split("## Quick start")[1].split("## ")[0]
    lines = BLOCK.findall(quick)[0][1].strip().splitlines()
    assert len(lines) == 2 and "pytest" in lines[1]


def test_files_named_in_the_readme_exist():
    root = Path(__file__).parent.parent
    for name in re.findall(r"`((?:jaxagent|tests|experiments)/[\w/]+(?:\.py|/))`", README):
        assert (root / name).exists(), name


def test_tests_named_in_the_readmes_exist():
    tests = Path(__file__).parent
    written = "\n".join(file.read_text() for file in tests.glob("test_*.py"))
    named = re.findall(r"`(test_\w+(?:\.py)?)`", README + (tests / "README.md").read_text())
    assert len(named) > 50
    for name in named:
        assert (tests / name).exists() if name.endswith(".py") else f"def {name}(" in written, name
