"""Figures of runs: one file each, found by name (it defines `draw`); the curve of K is plain SVG without matplotlib."""
