"""What a person looks at: two runs side by side, a model node by node, its layers and their errors."""
