"""What all else builds on, and which knows nothing of models: errors, words, documents, the process."""
