"""What is written: files and command lines."""
