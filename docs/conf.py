"""How Sphinx builds the documentation: python -m sphinx -W docs site."""

from overlapscope import __version__

project = "overlapscope"
author = "the overlapscope authors"
copyright = author  # noqa: A001 - Sphinx's name for it
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["*.in.md", "**/*.in.md"]
html_theme = "furo"
html_title = f"overlapscope {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sphinx = False
smartquotes = False  # options begin with two dashes
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
