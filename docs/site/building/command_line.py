"""The directive `command-line`: every command with its usage, text and options, asked of the program itself."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from building.tables import code, paragraph, section, table


class CommandLine(SphinxDirective):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        from sparingly.cli import app as program

        group = typer.main.get_command(program)
        outer = typer.Context(group, info_name="sparingly")
        commands = group.commands.items()  # typer's own click, whose types it keeps to itself
        return [self._section(typer.Context(command, outer, info_name=name)) for name, command in commands]

    def _section(self, context: typer.Context) -> nodes.section:
        command = context.command
        made = section(self, context.command_path, f"command-{context.info_name}", literal=True)
        made += code(command.get_usage(context).removeprefix("Usage: "), "none")
        for examples, texts in groupby((command.help or "").split("\n\n"), key=lambda text: text.startswith("    ")):
            if examples:
                made += code("\n".join(text.strip() for text in texts), "sh")
            else:
                made += [paragraph(self, " ".join(text.split())) for text in texts]
        records = [parameter.get_help_record(context) for parameter in command.params]
        rows = [(f"`{name}`", about) for name, about in filter(None, records)]
        if rows:
            made += table(self, ("option", "what it is"), rows)
        return made


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
