"""What a model is for: its outputs read as classes, boxes, masks or words, and how many of these are kept."""
