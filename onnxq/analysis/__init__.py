"""Seeing every layer: two stages of a model against each other, tensor by tensor."""
