"""The command line, as its own tests call it."""

from tests.cli.conftest import command as command
