"""What the site needs beyond Sphinx: links to files, docstrings as this project writes them, generated pages."""
