"""What a model is for: how its outputs are read as classes, boxes, masks or words, and how many of them are kept."""
