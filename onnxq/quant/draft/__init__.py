"""All that a written file is made of, beside the sanitized float model."""
