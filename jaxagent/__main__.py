"""`python -m jaxagent`."""

from jaxagent.cli import main

main()
