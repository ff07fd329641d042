"""The directive `part`: a learner or a rule of the registries with its formulas, its figure and its parameters."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from building.formulas import FORMULAS
from building.tables import paragraph, table

WORLDS = {
    "tabular": "Ten arms, one of them better by 0.2; 5 % of the rounds may be asked about; 50 runs.",
    "linear": "Eight features, ten actions, noise 0.5; 5 % of the rounds may be asked about; 8 runs.",
    "episodic": "RiverSwim with four states and eight steps; one reward in twenty episodes may be asked for; 4 runs.",
}


OTHERS = {
    "Logistic": "Eight features, ten actions, answers are yes or no; 5 % of the rounds may be asked about; 8 runs.",
    "Softmax": "Eight inputs, five classes, 5 % of the rounds may be asked about; 8 runs.",
}
GAMES = {"StationaryUCBVI": "FrozenLake of Gymnasium, 300 asks for 1,000 games; 5 runs."}


class Part(SphinxDirective):
    """Written as ```{part} ExactMatching```."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from sparingly.learners import LEARNERS
        from sparingly.protocol import SETTINGS
        from sparingly.rules import RULES

        name = self.arguments[0]
        known = {part.__name__: part for part in (*LEARNERS, *RULES)}
        part: Any = known[name]
        learner = part in LEARNERS
        where = [part.setting] if learner else [setting for setting in SETTINGS if setting in part.functions]
        made: list[nodes.Node] = [paragraph(self, f"**{part.summary}**")]
        made.append(paragraph(self, f"For {', '.join(SETTINGS[setting] for setting in where)}."))
        for words, formula in FORMULAS[name]:
            made.append(paragraph(self, words))
            made.append(nodes.math_block(formula, formula))
        world = (OTHERS | GAMES).get(name) or (WORLDS[where[0]] if learner else WORLDS["tabular"])
        made += self._figure(name, world, learner)
        rows = [(f"`{f.name}`", _default(f), _type(f)) for f in fields(part) if f.init]
        if rows:
            made.append(table(self, ("parameter", "default", "type"), rows))
        made.append(paragraph(self, f"What the parameters mean: {{py:class}}`sparingly.{name}`."))
        return made

    def _figure(self, name: str, world: str, learner: bool) -> list[nodes.Node]:
        shown = f"What {name} asks over time, against the budget, and what it loses"
        words = "With BalancedMatching" if learner else "UCB1 with scale 0.3"
        image = nodes.image(uri=f"/figures/part_{name}.png", alt=shown, candidates={"*": f"figures/part_{name}.png"})
        told = f"*{world} {words}; the others in grey. `python docs/figures/parts.py` redraws it.*"
        return [image, paragraph(self, told)]


def _default(field: Any) -> str:
    if field.default is MISSING:
        return "needed" if field.default_factory is MISSING else ""
    return f"`{field.default!r}`"


def _type(field: Any) -> str:
    return f"`{field.type if isinstance(field.type, str) else field.type.__name__}`"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("part", Part)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
