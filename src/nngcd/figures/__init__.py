"""Pictures as SVG text: they need no plotting library, open in any browser, and can be put into a page."""
