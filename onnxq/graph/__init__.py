"""The graph: load, view, edit, save."""
