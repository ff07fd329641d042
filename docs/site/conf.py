"""The documentation site: Sphinx reads the guides in docs/ as they are, and the reference from docstrings.

`make docs` builds it into build/docs. What Sphinx does not do by itself is in building/, one file for each matter.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "src")]

from sparingly.version import __version__  # noqa: E402  (the path comes first)

project = "sparingly"
author = "the authors of sparingly"
release = version = __version__
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "building.sections", "building.sources", "building.docstrings",
    "building.command_line", "building.http_api", "building.mathematics", "building.parts", "building.registry",
]  # fmt: skip
root_doc = "index"
exclude_patterns = ["site", "figures"]
show_warning_types = True

# Markdown: as code hosts read it. Headings get the anchors that links there use, <img> is an image.
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 4
highlight_language = "none"  # a block says what it is in
smartquotes = False  # "first" in a docstring is a string

autodoc_member_order = "bysource"
autodoc_typehints = "both"  # in the signature, and beside what is said of each parameter
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
# Names that say more than what they stand for; reference/index.md explains them.
autodoc_type_aliases = {
    name: name for name in ("Account", "ArrayLike", "Booleans", "Columns", "Environment", "Floats", "Integers", "State")
}
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_math_renderer = "sparingly-mathml"
html_title = "sparingly"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#00639a", "color-brand-content": "#00639a"},
    "dark_css_variables": {"color-brand-primary": "#6cbcf0", "color-brand-content": "#6cbcf0"},
}
